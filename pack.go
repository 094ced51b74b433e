package carve

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/pool"
	"github.com/carve-dev/carve/partition"
)

type packKey struct {
	t *tensor.Tensor
	f graph.Format
}

// packedSet is a set of constants in other formats and the memory that they lie in.
type packedSet struct {
	weights map[packKey]device.Memory
	blocks  []ownedMemory
	bytes   int64
}

type ownedMemory struct {
	device device.Device
	mem    device.Memory
}

// add takes over what another set has.
func (s *packedSet) add(o *packedSet) {
	if s.weights == nil {
		s.weights = map[packKey]device.Memory{}
	}
	for k, m := range o.weights {
		s.weights[k] = m
	}
	s.blocks = append(s.blocks, o.blocks...)
	s.bytes += o.bytes
}

// free gives the memory back.
func (s *packedSet) free() {
	for _, b := range s.blocks {
		b.device.Free(b.mem)
	}
	*s = packedSet{}
}

// packing is one conversion of a constant that has to be done. Its target is given where it is part of a larger block.
type packing struct {
	partition.Pack
	key packKey
	mem device.Memory
	set *packedSet
	hop convert.Move // where one hop in host memory does it

	done bool
}

// Sizes of the pass pack-constants, in bytes. Constants from largePack on are packed one after the other by all threads
// together, smaller ones by one thread each. Packed constants lie in one block: they share its large pages, whose first
// touch costs a tenth of that of small ones.
const (
	largePack = 1 << 20
	packAlign = 64
	packSlack = 64 // behind each constant, so that kernels may read whole vectors
	// evictEvery is how much is packed before the pages of the model's files that were read are given back: they are not
	// needed any more, but would count as the process's memory.
	evictEvery = 64 << 20
)

// pack converts constants, once per constant and format: those of the model for all its Programs, those that simplification
// made for this Program alone.
func (c *compilation) pack() error {
	var work []*partition.Pack
	if err := c.blocks(func(g *graph.Graph) error {
		for i := range c.results[g].Packs {
			work = append(work, &c.results[g].Packs[i])
		}
		return nil
	}); err != nil {
		return err
	}
	if len(work) == 0 {
		return nil
	}
	unlock, err := c.model.lockPacking(c.ctx)
	if err != nil {
		return err
	}
	defer unlock()
	var shared, own packedSet
	missing := c.missing(work, &shared, &own)
	if err := c.packAll(missing, &shared, &own); err != nil {
		shared.free()
		own.free()
		return err
	}
	if len(missing) > 0 {
		c.model.evict()
	}
	c.packed.add(&own)
	c.model.keep(&shared)
	for _, p := range work {
		k := packKey{p.Constant, p.Format}
		m, ok := c.packed.weights[k]
		if !ok {
			m = c.model.packed.weights[k]
		}
		p.Packed.Data, p.Packed.Handle = m.Data, m.Handle
		// Reports need the type; the data of folded constants need not be kept.
		p.Constant = &tensor.Tensor{DType: k.t.DType, Shape: k.t.Shape}
	}
	return nil
}

// missing returns the conversions that neither the model nor the compilation has yet.
func (c *compilation) missing(work []*partition.Pack, shared, own *packedSet) []*packing {
	ofModel := c.model.constants()
	seen := map[packKey]bool{}
	var missing []*packing
	for _, p := range work {
		k := packKey{p.Constant, p.Format}
		_, have := c.packed.weights[k]
		if !have && !ownDevice(c.opened, p.Format.Device) {
			_, have = c.model.packed.weights[k]
		}
		if have || seen[k] {
			continue
		}
		seen[k] = true
		set := own
		if ofModel[p.Constant] && !ownDevice(c.opened, p.Format.Device) {
			set = shared
		}
		missing = append(missing, &packing{Pack: *p, key: k, set: set})
	}
	return missing
}

// ownDevice reports whether a device ends with a Program, because the backend does, which it opened: what lies on it is not
// shared.
func ownDevice(opened []backend.Backend, id tensor.DeviceID) bool {
	if id.IsHost() {
		return false
	}
	for _, b := range opened {
		for _, d := range b.Devices() {
			if d.ID() == id {
				return true
			}
		}
	}
	return false
}

// packAll gives every packing its memory and fills it.
func (c *compilation) packAll(missing []*packing, shared, own *packedSet) error {
	for _, set := range []*packedSet{shared, own} {
		if err := c.packBlock(missing, set); err != nil {
			return err
		}
	}
	var small, large []*packing
	for _, p := range missing {
		if p.hop != nil && p.mem.Size >= largePack && !p.Format.Layout.IsOpaque() { // others' converters may be serial
			large = append(large, p)
		} else {
			small = append(small, p)
		}
	}
	if err := c.packLarge(large); err != nil {
		return err
	}
	var unevicted atomic.Int64
	err := c.parallel(len(small), func(i int) error {
		err := c.packOne(small[i])
		if unevicted.Add(small[i].mem.Size) >= evictEvery {
			unevicted.Store(0)
			c.model.evict()
		}
		return err
	})
	for _, p := range small {
		if p.hop == nil && p.done { // its device gave it a block of its own
			p.set.blocks = append(p.set.blocks, ownedMemory{c.devices[canonical(p.Format.Device)], p.mem})
			p.set.bytes += p.mem.Size
		}
	}
	if err != nil {
		return err
	}
	for _, p := range missing {
		if p.set.weights == nil {
			p.set.weights = map[packKey]device.Memory{}
		}
		p.set.weights[p.key] = p.mem
	}
	return nil
}

// packLarge packs constants one after the other, each by all threads. The largest come first, while little else has been
// touched: what is read of a file stays in memory until a constant is done.
func (c *compilation) packLarge(list []*packing) error {
	if len(list) == 0 {
		return nil
	}
	slices.SortStableFunc(list, func(a, b *packing) int { return cmp.Compare(b.mem.Size, a.mem.Size) })
	pool.Acquire()
	defer pool.Release()
	run := pool.BeginRun(0)
	defer run.End()
	s := &device.HostStream{Run: run}
	var read int64
	for i, p := range list {
		if err := p.hop(c.ctx, &tensor.Tensor{DType: p.Constant.DType, Shape: p.Constant.Shape, Data: p.mem.Data}, p.Constant, s); err != nil {
			return packError(p, err)
		}
		if read += p.mem.Size; read >= evictEvery {
			c.model.evict()
			read = 0
		}
		c.o.Observer(Progress{Pass: c.pass, Done: i + 1, Total: len(list), Elapsed: time.Since(c.started)})
	}
	return nil
}

func packError(p *packing, err error) error {
	return fmt.Errorf("constant %q to %v: %w", p.Name, p.Format, err)
}

// packBlock plans the conversions of a set that are single hops in host memory, and gives them one block.
func (c *compilation) packBlock(missing []*packing, set *packedSet) error {
	var total int64
	var offsets []int64
	var list []*packing
	for _, p := range missing {
		if p.set != set || !p.Format.Device.IsHost() {
			continue
		}
		path, err := c.registry.PathOf(graph.HostFormat, p.Format, p.Constant.DType, len(p.Constant.Shape))
		if err != nil {
			return packError(p, err)
		}
		if len(path) != 1 {
			continue
		}
		size, err := c.registry.Size(p.Format, p.Constant.DType, p.Constant.Shape)
		if err != nil {
			return packError(p, err)
		}
		if p.hop, err = path[0].Plan(p.Constant.DType, p.Constant.Shape); err != nil {
			return packError(p, err)
		}
		p.mem.Size = size
		offsets, list = append(offsets, total), append(list, p)
		total += (size + packSlack + packAlign - 1) / packAlign * packAlign
	}
	if len(list) == 0 {
		return nil
	}
	block, err := device.Host.Alloc(total)
	if err != nil {
		return err
	}
	set.blocks = append(set.blocks, ownedMemory{device.Host, block})
	set.bytes += total
	for i, p := range list {
		p.mem.Data = block.Data[offsets[i] : offsets[i]+p.mem.Size : offsets[i]+p.mem.Size]
	}
	return nil
}

// packOne fills a packing serially. Whatever is no single hop in host memory is given its memory here.
func (c *compilation) packOne(p *packing) error {
	var err error
	if p.hop != nil {
		err = p.hop(c.ctx, &tensor.Tensor{DType: p.Constant.DType, Shape: p.Constant.Shape, Data: p.mem.Data}, p.Constant, nil)
	} else {
		p.mem, err = convertConstant(c.ctx, c.registry, c.devices, p.Constant, graph.HostFormat, p.Format)
	}
	if err != nil {
		return packError(p, err)
	}
	p.done = true
	return nil
}

// convertConstant runs the conversion path of a constant, hop by hop, and returns memory of the last format's device.
func convertConstant(ctx context.Context, registry *convert.Registry, devices map[tensor.DeviceID]device.Device, src *tensor.Tensor,
	from, to graph.Format,
) (device.Memory, error) {
	var held device.Memory
	var holder device.Device
	free := func() {
		if holder != nil {
			holder.Free(held)
		}
	}
	path, err := registry.PathOf(from, to, src.DType, len(src.Shape))
	if err != nil {
		return held, err
	}
	if len(path) == 0 {
		return held, fmt.Errorf("%w: from %v to itself", convert.ErrNoPath, from)
	}
	for _, hop := range path {
		next, err := convertHop(ctx, registry, devices, hop, src)
		free()
		if err != nil {
			return device.Memory{}, err
		}
		held, holder = next, devices[canonical(hop.To.Device)]
		src = &tensor.Tensor{DType: src.DType, Shape: src.Shape, Device: hop.To.Device, Data: next.Data, Handle: next.Handle}
	}
	return held, nil
}

// convertHop converts a constant by one converter.
func convertHop(ctx context.Context, registry *convert.Registry, devices map[tensor.DeviceID]device.Device, hop *convert.Converter,
	src *tensor.Tensor,
) (device.Memory, error) {
	size, err := registry.Size(hop.To, src.DType, src.Shape)
	if err != nil {
		return device.Memory{}, err
	}
	move, err := hop.Plan(src.DType, src.Shape)
	if err != nil {
		return device.Memory{}, err
	}
	dev := devices[canonical(hop.To.Device)]
	if dev == nil {
		return device.Memory{}, fmt.Errorf("%w: no backend has device %v", convert.ErrNoPath, hop.To.Device)
	}
	m, err := dev.Alloc(size)
	if err != nil {
		return device.Memory{}, err
	}
	dst := &tensor.Tensor{DType: src.DType, Shape: src.Shape, Device: hop.To.Device, Data: m.Data, Handle: m.Handle}
	if err := move(ctx, dst, src, nil); err != nil {
		dev.Free(m)
		return device.Memory{}, err
	}
	return m, nil
}

// lockPacking makes the caller the only one that packs constants of the model; packing is parallel in itself.
func (m *Model) lockPacking(ctx context.Context) (unlock func(), err error) {
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return func() { <-m.turn }, nil
}

// evict gives the pages of the model's files back; constants that are still read are mapped again.
func (m *Model) evict() {
	if m.source != nil {
		_ = m.source.Evict() // advice: where it fails the pages stay
	}
}

// keep adds packed constants to the model's.
func (m *Model) keep(s *packedSet) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.packed.add(s)
}

// constants returns the constants of the model's graph.
func (m *Model) constants() map[*tensor.Tensor]bool {
	m.once.Do(func() {
		m.consts = map[*tensor.Tensor]bool{}
		_ = eachBlock(m.graph, func(g *graph.Graph) error {
			for v := range g.Constants() {
				if v.IsConst() {
					m.consts[v.Const] = true
				}
			}
			return nil
		})
	})
	return m.consts
}

// packedBytes returns the memory of all packed weights.
func (m *Model) packedBytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.packed.bytes
}
