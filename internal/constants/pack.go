package constants

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/offheap"
	"github.com/carve-dev/carve/internal/pool"
)

// Sizes of packing, in bytes. Constants from largePack on that are a large part of all are packed one after the other by all threads
// together, the others by one thread each. Packed constants lie in one allocation: they share its large pages.
const (
	largePack = 1 << 20
	packAlign = 64
	packSlack = 64 // behind each constant, so that kernels may read whole vectors
	// evictEvery is how much is read before the pages of the model's files are given back: they are not needed any more, but would
	// count as the process's memory. A packer that reads columns of rows needs the pages of its constant again: at half of this,
	// compiling a transformer takes a tenth longer.
	evictEvery = 32 << 20
)

// Packer converts the constants of one Program. It is safe for concurrent use.
type Packer struct {
	Shared   *Shared // of the model
	Own      *Store  // of the Program
	Transfer convert.Transfer
	// Private reports whether a device ends with the Program: what lies on it is not shared.
	Private func(tensor.DeviceID) bool
}

// Request asks for a constant, row-major on the host, in another format.
type Request struct {
	Key
	Name string // for errors
}

// Job is how requests are served.
type Job struct {
	Threads  int                   // most goroutines
	Progress func(done, total int) // told from one goroutine at a time
}

// packing is one conversion that has to be done. Its target is given where it is part of a larger allocation.
type packing struct {
	Request
	mem    device.Memory
	block  *block // that mem is a part of
	at     int64  // where in it
	shared bool
	hop    convert.Move // where one hop in host memory does it
	spread bool         // the hop is work for all threads
	done   bool
}

// Pack makes what of a list is not there yet, and returns where each lies, in the order of the list.
func (p *Packer) Pack(ctx context.Context, list []Request, job Job) ([]device.Memory, error) {
	if len(list) == 0 {
		return nil, nil
	}
	unlock, err := p.Shared.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	missing := p.missing(list)
	if len(missing) > 0 {
		w := packRun{Packer: p, ctx: ctx, job: job}
		if err := w.run(missing); err != nil {
			return nil, err
		}
		p.Shared.evictPages()
	}
	out := make([]device.Memory, len(list))
	for i, r := range list {
		m, ok := p.find(r.Key)
		if !ok {
			return nil, fmt.Errorf("constant %q to %v was not made", r.Name, r.Format)
		}
		out[i] = m
	}
	return out, nil
}

// Form returns a constant in a format, whatever format it is in.
func (p *Packer) Form(ctx context.Context, v *graph.Value, f graph.Format) (*tensor.Tensor, error) {
	unlock, err := p.Shared.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	k := Key{v.Const, f}
	made := func(m device.Memory) *tensor.Tensor {
		return &tensor.Tensor{DType: v.Const.DType, Shape: v.Const.Shape, Device: f.Device, Data: m.Data, Handle: m.Handle}
	}
	if m, ok := p.find(k); ok {
		return made(m), nil
	}
	m, err := p.Transfer.New(ctx, v.Const, v.Format, f, nil)
	if err != nil {
		return nil, err
	}
	store := p.Own
	if v.Format == graph.HostFormat && p.isShared(k) {
		store = &p.Shared.Store
	}
	if err := store.add(map[Key]device.Memory{k: m}, []allocation{{p.Transfer.Devices[f.Device.Canonical()], m}}); err != nil {
		return nil, err
	}
	return made(m), nil
}

// find returns where a constant lies in a format: the Program's, or the model's.
func (p *Packer) find(k Key) (device.Memory, bool) {
	if m, ok := p.Own.Get(k); ok {
		return m, true
	}
	if p.Private(k.Format.Device) {
		return device.Memory{}, false
	}
	return p.Shared.Get(k)
}

// isShared reports whether a constant in a format is for all Programs of the model.
func (p *Packer) isShared(k Key) bool { return !p.Private(k.Format.Device) && p.Shared.has(k.Constant) }

// missing returns the conversions that nobody has done yet.
func (p *Packer) missing(list []Request) []*packing {
	seen := map[Key]bool{}
	var missing []*packing
	for _, r := range list {
		if _, have := p.find(r.Key); have || seen[r.Key] {
			continue
		}
		seen[r.Key] = true
		missing = append(missing, &packing{Request: r, shared: p.isShared(r.Key)})
	}
	return missing
}

// packRun is one call of Pack.
type packRun struct {
	*Packer
	ctx       context.Context
	job       Job
	unevicted atomic.Int64 // bytes read since pages were given back
}

// run gives every packing its memory and fills it. After an error nothing of it is kept.
func (w *packRun) run(missing []*packing) (err error) {
	var allocated [2][]allocation // the Program's, the model's
	defer func() {
		if err != nil {
			for _, list := range allocated {
				for _, b := range list {
					b.device.Free(b.mem)
				}
			}
		}
	}()
	for i, shared := range []bool{false, true} {
		b, err := w.reserve(missing, shared)
		if err != nil {
			return err
		}
		if b.device != nil {
			allocated[i] = append(allocated[i], b)
		}
	}
	small, large := w.divide(missing)
	if err := w.packLarge(large); err != nil {
		return err
	}
	err = w.packSmall(small)
	var made [2]map[Key]device.Memory
	for _, p := range missing {
		i := 0
		if p.shared {
			i = 1
		}
		if p.hop == nil && p.done { // its device gave it memory of its own
			allocated[i] = append(allocated[i], allocation{w.Transfer.Devices[p.Format.Device.Canonical()], p.mem})
		}
		if made[i] == nil {
			made[i] = map[Key]device.Memory{}
		}
		made[i][p.Key] = p.mem
	}
	if err != nil {
		return err
	}
	for i, s := range []*Store{w.Own, &w.Shared.Store} {
		if err := s.add(made[i], allocated[i]); err != nil {
			allocated[i] = nil // freed by the store
			return err
		}
		allocated[i] = nil
	}
	return nil
}

// reserve plans the conversions that are single hops in host memory, of the model's constants or of the others, and gives
// them one allocation.
func (w *packRun) reserve(missing []*packing, shared bool) (allocation, error) {
	var list []*packing
	for _, p := range missing {
		if p.shared != shared || !p.Format.Device.IsHost() {
			continue
		}
		path, err := w.Transfer.Registry.PathOf(graph.HostFormat, p.Format, p.Constant.DType, len(p.Constant.Shape))
		if err != nil {
			return allocation{}, packError(p, err)
		}
		if len(path) != 1 {
			continue
		}
		size, err := w.Transfer.Registry.Size(p.Format, p.Constant.DType, p.Constant.Shape)
		if err != nil {
			return allocation{}, packError(p, err)
		}
		if p.hop, err = path[0].Prepare(p.Constant.DType, p.Constant.Shape, nil); err != nil {
			return allocation{}, packError(p, err)
		}
		p.mem.Size, p.spread = size, path[0].Spreads
		list = append(list, p)
	}
	if len(list) == 0 {
		return allocation{}, nil
	}
	largestFirst(list) // in the order in which they will be written
	var total int64
	for _, p := range list {
		p.at = total
		total += slot(p.mem.Size)
	}
	host := w.Transfer.Devices[tensor.DeviceID{}]
	mem, err := host.Alloc(total)
	if err != nil {
		return allocation{}, err
	}
	b := &block{data: mem.Data}
	if host != device.Host { // somebody else's memory, and pages
		b.made = len(b.data)
	}
	for _, p := range list {
		p.block, p.mem.Data = b, mem.Data[p.at:p.at+p.mem.Size:p.at+p.mem.Size]
	}
	return allocation{host, mem}, nil
}

// largestFirst sorts conversions by the size of their results.
func largestFirst(list []*packing) {
	slices.SortStableFunc(list, func(a, b *packing) int { return cmp.Compare(b.mem.Size, a.mem.Size) })
}

// block is memory that is written from its beginning on.
type block struct {
	mu   sync.Mutex
	data []byte
	made int // bytes whose pages there are
}

// makePages makes the pages of the first n bytes, not much earlier than they are written.
func (b *block) makePages(n int, workers *device.Workers) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n <= b.made {
		return
	}
	end := min((n+offheap.HugePage-1)/offheap.HugePage*offheap.HugePage, len(b.data))
	data := b.data[b.made:end]
	b.made = end
	workers.Parallel((len(data)+offheap.HugePage-1)/offheap.HugePage, func(lo, hi int) {
		offheap.Populate(data[lo*offheap.HugePage : min(hi*offheap.HugePage, len(data))])
	})
}

// slot returns the bytes that a constant takes in an allocation.
func slot(n int64) int64 { return (n + packSlack + packAlign - 1) / packAlign * packAlign }

// divide decides what all threads pack together: that of which one thread would have more than half its share of all. The largest
// come first, while little else has been touched, and so that threads end at about the same time.
func (w *packRun) divide(list []*packing) (small, large []*packing) {
	largestFirst(list)
	var total int64
	for _, p := range list {
		total += p.mem.Size
	}
	share := total / int64(2*w.threads())
	for _, p := range list {
		if p.spread && p.mem.Size >= max(largePack, share) {
			large = append(large, p)
		} else {
			small = append(small, p)
		}
	}
	return small, large
}

func (w *packRun) threads() int { return max(w.job.Threads, runtime.GOMAXPROCS(0)) }

// packLarge packs constants one after the other, each by all threads.
func (w *packRun) packLarge(list []*packing) error {
	workers := device.Workers{Threads: w.threads()}
	for i, p := range list {
		if err := w.fill(p, &workers); err != nil {
			return err
		}
		w.job.Progress(i+1, len(list))
	}
	return nil
}

// packSmall packs constants on several goroutines, each serially.
func (w *packRun) packSmall(list []*packing) error {
	return pool.Each(w.ctx, len(list), w.job.Threads, w.job.Progress, func(i int) error { return w.fill(list[i], nil) })
}

// fill does a packing. Whatever is no single hop in host memory is given its memory here.
func (w *packRun) fill(p *packing, workers *device.Workers) error {
	var err error
	if p.hop != nil {
		p.block.makePages(int(p.at+p.mem.Size), workers)
		x := convert.Exec{Workers: workers}
		if p.spread {
			x.Progress = w.read
		}
		err = p.hop(w.ctx, &tensor.Tensor{DType: p.Constant.DType, Shape: p.Constant.Shape, Data: p.mem.Data}, p.Constant, x)
	} else {
		p.mem, err = w.Transfer.New(w.ctx, p.Constant, graph.HostFormat, p.Format, workers)
	}
	if err != nil {
		return packError(p, err)
	}
	if !p.spread {
		w.read(p.Constant.NumBytes())
	}
	p.done = true
	return nil
}

// read counts bytes of constants that are not needed any more, and at times gives the pages of files back.
func (w *packRun) read(bytes int) {
	if w.unevicted.Add(int64(bytes)) >= evictEvery {
		w.unevicted.Store(0)
		w.Shared.evictPages()
	}
}

func packError(p *packing, err error) error {
	return fmt.Errorf("constant %q to %v: %w", p.Name, p.Format, err)
}
