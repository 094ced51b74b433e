package carve

import (
	"context"
	"fmt"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// withForms returns a group's constants with those behind them that an instance wants in formats of its own. They are
// packed once per constant and format: for all Programs of the model where the constant is the model's own, for this one
// elsewhere, and kept as long as that lives.
func (p *Program) withForms(ctx context.Context, body *graph.Graph, own []*tensor.Tensor, forms []backend.ConstantForm) ([]*tensor.Tensor, error) {
	if len(forms) == 0 {
		return own, nil
	}
	var constants []*graph.Value
	for v := range body.Constants() {
		constants = append(constants, v)
	}
	unlock, err := p.model.lockPacking(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	out := append([]*tensor.Tensor(nil), own...)
	for _, f := range forms {
		if f.Index < 0 || f.Index >= len(constants) || !constants[f.Index].IsConst() {
			return nil, fmt.Errorf("%w: constant %d of %d in %v", convert.ErrConverter, f.Index, len(constants), f.Format)
		}
		t, err := p.formOf(ctx, constants[f.Index], f.Format)
		if err != nil {
			return nil, fmt.Errorf("constant %v to %v: %w", constants[f.Index], f.Format, err)
		}
		out = append(out, t)
	}
	return out, nil
}

// formOf returns a constant in a format. It is called by whoever may pack.
func (p *Program) formOf(ctx context.Context, v *graph.Value, f graph.Format) (*tensor.Tensor, error) {
	k := packKey{v.Const, f}
	made := func(m device.Memory) *tensor.Tensor {
		return &tensor.Tensor{DType: v.Const.DType, Shape: v.Const.Shape, Device: f.Device, Data: m.Data, Handle: m.Handle}
	}
	shared := v.Format == graph.HostFormat && p.model.constants()[v.Const] && !ownDevice(p.opened, f.Device)
	if shared {
		if m, ok := p.model.packed.weights[k]; ok {
			return made(m), nil
		}
	}
	if m, ok := p.packed.weights[k]; ok {
		return made(m), nil
	}
	m, err := convertConstant(ctx, p.registry, p.devices, v.Const, v.Format, f)
	if err != nil {
		return nil, err
	}
	set := packedSet{weights: map[packKey]device.Memory{k: m}, blocks: []ownedMemory{{p.devices[canonical(f.Device)], m}}, bytes: m.Size}
	if shared {
		p.model.keep(&set)
		return made(m), nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() && len(p.live) == 0 { // nobody would free it
		set.free()
		return nil, ErrClosed
	}
	p.packed.add(&set)
	return made(m), nil
}
