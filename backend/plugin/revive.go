package plugin

import (
	"fmt"
	"sync"
	"time"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/plugin/internal/isolate"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// What a plugin out of process has made is lost with its process. Each object knows the life in which it was made, and is made
// again when it is used in another: the processor here, blocks of memory, streams, executables, instances and sessions beside
// what else is known of them. Events are not: they have happened, with an error.

// patience is how long calls wait for a process that is about to be started again.
const patience = 5 * time.Second

// revive returns the present life, in which the processor is open.
func (p *processor) revive() (side, error) {
	life, err := p.proc.Life(patience)
	if err != nil {
		return side{p.l, p.proc, 0}, p.l.processError("open", err)
	}
	s := side{p.l, p.proc, life}
	if p.life.Load() == life {
		return s, nil
	}
	p.opening.Lock()
	defer p.opening.Unlock()
	if p.life.Load() == life {
		return s, nil
	}
	pg := page{region: s.shared()}
	defer pg.end()
	return s, p.open(&writer{page: &pg, side: s})
}

// open opens the processor in the life of w.
func (p *processor) open(w *writer) error {
	texts := make([]cStr, len(p.options))
	for i, o := range p.options {
		texts[i] = w.text(o)
	}
	h := one[uint64](w)
	if err := p.do(w, "open", p.l.table.open, uintptr(p.info.index), list(w, texts), uintptr(len(texts)), address(h)); err != nil {
		return err
	}
	word := *h
	if word == 0 {
		return fmt.Errorf("%w: %s: open gave no backend", ErrPlugin, p.l.path)
	}
	p.word.Store(word)
	p.life.Store(w.life)
	return nil
}

// Shared implements backend.Sharing: what lies in the memory that a plugin's process sees need not be copied for it. It is nil
// for a plugin in this process.
func (b *Backend) Shared() device.Allocator {
	if b.p.proc == nil {
		return nil
	}
	return sharedMemory(b.p.proc)
}

// sharedMemory is the memory that a process shares, as memory of the host.
func sharedMemory(proc *isolate.Process) device.Allocator {
	return &shared{region: proc.Region(), blocks: map[*byte]*isolate.Block{}}
}

// Process implements backend.Isolated.
func (b *Backend) Process() (backend.Process, bool) {
	if b.p.proc == nil {
		return backend.Process{}, false
	}
	return b.p.l.fared(b.p.before), true
}

// fared tells how the process has fared since.
func (l *Library) fared(since isolate.Stats) backend.Process {
	s := l.stats()
	out := backend.Process{Restarts: s.Restarts - since.Restarts}
	if s.Last != nil && s.Last != since.Last {
		out.Last = s.Last.Text
	}
	return out
}

// shared is the memory that a plugin's process sees, as memory of the host.
type shared struct {
	region *isolate.Region

	mu     sync.Mutex
	blocks map[*byte]*isolate.Block
}

// Alloc implements device.Allocator.
func (s *shared) Alloc(size int64) (device.Memory, error) {
	if size < 0 || size > offheapLimit {
		return device.Memory{}, fmt.Errorf("%w: a block of %d bytes", device.ErrOutOfMemory, size)
	}
	if size == 0 {
		return device.Memory{Data: []byte{}}, nil
	}
	b, err := s.region.Alloc(int(size), tensor.Alignment)
	if err != nil {
		return device.Memory{}, fmt.Errorf("%w: %w", device.ErrOutOfMemory, err)
	}
	data := b.Bytes()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocks[first(data)] = b
	return device.Memory{Data: data, Size: size}, nil
}

// Free implements device.Allocator.
func (s *shared) Free(m device.Memory) {
	if len(m.Data) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.blocks[first(m.Data)].Free()
	delete(s.blocks, first(m.Data))
}
