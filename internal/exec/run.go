package exec

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Run computes the outputs for inputs given by name, like Program.Run, in this session.
func (s *Session) Run(ctx context.Context, inputs map[string]tensor.Value) (map[string]tensor.Value, error) {
	main := s.m.main
	values := make([]tensor.Value, len(main.Inputs))
	found := 0
	for i, v := range main.Graph.Inputs {
		x, ok := inputs[v.Name]
		if ok {
			found++
		}
		if d := s.m.env.Defaults[i]; d != nil && (!ok || x == nil) {
			x, ok = d, true
		}
		if !ok || x == nil {
			return nil, &PortError{Name: v.Name, Problem: "missing", Expected: v.Type.String(), Found: "nothing", Kind: ErrInput}
		}
		values[i] = x
	}
	if found < len(inputs) {
		return nil, unknownInput(main.Graph.Inputs, inputs)
	}
	f, err := s.begin(ctx, values)
	if err != nil {
		return nil, err
	}
	defer s.run.End()
	defer f.drop()
	if err := f.prepareDirect(); err != nil {
		return nil, err
	}
	if err := f.retried(ctx); err != nil {
		return nil, err
	}
	f.checkDeclared(ctx)
	out := map[string]tensor.Value{}
	for i, slot := range main.Outputs {
		v, err := f.value(slot)
		if err != nil {
			return nil, err
		}
		if main.Slots[slot].direct >= 0 { // the storage is the caller's from now on
			c := *v.(*tensor.Tensor)
			c.Shape = slices.Clone(c.Shape)
			out[s.m.env.OutputNames[i]] = &c
			continue
		}
		if v, err = ownValue(v); err != nil {
			return nil, err
		}
		out[s.m.env.OutputNames[i]] = v
	}
	return out, nil
}

// begin validates inputs, finds the frame, and sets the inputs.
func (s *Session) begin(ctx context.Context, values []tensor.Value) (*frame, error) {
	if s.closed || s.m.closed.Load() {
		return nil, ErrClosed
	}
	main := s.m.main
	if cap(s.in) < len(values) {
		s.in = make([]*tensor.Tensor, len(values))
	}
	s.in = s.in[:len(values)]
	for i, v := range main.Graph.Inputs {
		s.in[i] = nil
		x, err := hostValue(v, values[i])
		if err != nil {
			return nil, err
		}
		values[i] = x
		s.in[i], _ = x.(*tensor.Tensor)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := s.frameFor(ctx, s.in)
	if err != nil {
		return nil, err
	}
	for i, slot := range main.Inputs {
		if t := s.in[i]; t != nil {
			f.setValue(slot, t)
		} else {
			f.setValue(slot, values[i])
		}
	}
	s.run.Begin(s.m.env.Threads)
	return f, nil
}

// RunInto computes into the caller's outputs, like Program.RunInto, in this session.
func (s *Session) RunInto(ctx context.Context, inputs, outputs []*tensor.Tensor) error {
	if s.closed || s.m.closed.Load() {
		return ErrClosed
	}
	main := s.m.main
	if len(inputs) != len(main.Inputs) {
		return &PortError{Name: "inputs", Problem: "wrong number", Expected: fmt.Sprint(len(main.Inputs)), Found: fmt.Sprint(len(inputs)), Kind: ErrInput}
	}
	if len(outputs) != len(main.Outputs) {
		return &PortError{Name: "outputs", Problem: "wrong number", Expected: fmt.Sprint(len(main.Outputs)), Found: fmt.Sprint(len(outputs)), Kind: ErrOutput}
	}
	f, err := s.beginTensors(ctx, inputs)
	if err != nil {
		return err
	}
	defer s.run.End()
	defer f.drop()
	for i, slot := range main.Outputs {
		if err := s.checkOutput(f, i, slot, inputs, outputs); err != nil {
			return err
		}
	}
	for i, slot := range main.Outputs {
		if main.Slots[slot].direct < 0 {
			continue
		}
		t := &f.tensors[slot]
		if o := outputs[i]; o != nil {
			t.Data, t.Offset = o.Data, o.Offset
		} else if t.Data == nil { // not wanted, but made
			n, err := tensor.New(t.DType, t.Shape...)
			if err != nil {
				return err
			}
			t.Data, t.Offset = n.Data, 0
		}
	}
	err = f.retried(ctx)
	if err == nil {
		f.checkDeclared(ctx)
		err = s.copyOutputs(f, outputs)
	}
	for _, slot := range main.Outputs { // the caller's storage is not kept
		if main.Slots[slot].direct >= 0 {
			f.tensors[slot].Data = nil
		}
	}
	return err
}

func (s *Session) copyOutputs(f *frame, outputs []*tensor.Tensor) error {
	main := s.m.main
	for i, slot := range main.Outputs {
		if outputs[i] == nil || main.Slots[slot].direct >= 0 {
			continue
		}
		v, err := f.value(slot)
		if err != nil {
			return err
		}
		t, ok := v.(*tensor.Tensor)
		if !ok {
			return s.badOutput(i, "is no tensor", "a tensor", fmt.Sprintf("%T", v))
		}
		o := outputs[i]
		if t.DType != o.DType || !slices.Equal(t.Shape, o.Shape) {
			return s.badOutput(i, "wrong type or shape", t.String(), o.String())
		}
		if t.DType == tensor.String {
			copy(o.Strings, t.Strings)
			continue
		}
		copy(o.Bytes(), t.Bytes())
	}
	return nil
}

// beginTensors is begin for tensors, without an allocation.
func (s *Session) beginTensors(ctx context.Context, inputs []*tensor.Tensor) (*frame, error) {
	main := s.m.main
	if cap(s.in) < len(inputs) {
		s.in = make([]*tensor.Tensor, len(inputs))
	}
	s.in = s.in[:len(inputs)]
	for i, v := range main.Graph.Inputs {
		t := inputs[i]
		if t == nil {
			t = s.m.env.Defaults[i]
		}
		t, err := hostInput(v, t)
		if err != nil {
			return nil, err
		}
		s.in[i] = t
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := s.frameFor(ctx, s.in)
	if err != nil {
		return nil, err
	}
	for i, slot := range main.Inputs {
		f.tensors[slot] = *s.in[i]
		f.values[slot] = &f.tensors[slot]
	}
	s.run.Begin(s.m.env.Threads)
	return f, nil
}

// unknownInput names the first, in the order of names, of the given inputs that is none.
func unknownInput(known []*graph.Value, given map[string]tensor.Value) error {
	names := map[string]bool{}
	for _, v := range known {
		names[v.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !names[name] {
			return &PortError{Name: name, Problem: "the model has no such input", Kind: ErrInput}
		}
	}
	return nil
}
