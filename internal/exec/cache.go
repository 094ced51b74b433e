package exec

import (
	"context"
	"math"
	"slices"
)

// entry is a cached specialisation of the main block, for one list of input shapes.
type entry struct {
	shapes [][]int
	turn   chan struct{} // held by the caller that makes spec
	spec   *Spec         // written once, with the Machine's mu held
}

// spec returns the specialisation for concrete input shapes, from the cache or new.
func (m *Machine) spec(ctx context.Context, shapes [][]int) (*Spec, error) {
	bind, err := m.bind(shapes)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	if m.closed.Load() {
		m.mu.Unlock()
		return nil, ErrClosed
	}
	var e *entry
	if i := slices.IndexFunc(m.specs, func(x *entry) bool { return sameShapes(x.shapes, shapes) }); i >= 0 {
		e = m.specs[i]
	} else {
		m.evict(m.env.MaxSpecializations - 1)
		e = &entry{shapes: cloneShapes(shapes), turn: make(chan struct{}, 1)}
		m.specs = append(m.specs, e)
	}
	s := e.spec
	m.mu.Unlock()
	if s != nil {
		m.touch(s)
		return s, nil
	}
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-e.turn }()
	m.mu.Lock()
	s = e.spec
	m.mu.Unlock()
	if s != nil { // made by the caller before
		return s, nil
	}
	if err = m.admits(bind); err == nil {
		s, err = m.specialize(ctx, m.main, bind)
	}
	if err != nil {
		m.forget(e)
		return nil, err
	}
	if m.spare != nil {
		s.setInputs(shapes)
	}
	m.touch(s)
	m.mu.Lock()
	if e.spec = s; !slices.Contains(m.specs, e) { // dropped in the making
		e.drop()
	}
	m.mu.Unlock()
	return s, nil
}

// touch notes that s is used now.
func (m *Machine) touch(s *Spec) { s.used.Store(m.clock.Add(1)) }

// evict drops the specialisations that were used longest ago until n are left. Those in the making come last. It is called
// with mu held.
func (m *Machine) evict(n int) {
	age := func(e *entry) int64 {
		if e.spec == nil {
			return math.MaxInt64
		}
		return e.spec.used.Load()
	}
	for len(m.specs) > n {
		oldest := 0
		for i, e := range m.specs {
			if age(e) < age(m.specs[oldest]) {
				oldest = i
			}
		}
		m.specs[oldest].drop()
		m.specs = slices.Delete(m.specs, oldest, oldest+1)
	}
}

// drop notes that the specialisation is kept no more.
func (e *entry) drop() {
	if e.spec != nil {
		e.spec.dropped.Store(true)
	}
}

// newest returns the specialisation that was used last, nil where there is none.
func (m *Machine) newest() *Spec {
	m.mu.Lock()
	defer m.mu.Unlock()
	var s *Spec
	for _, e := range m.specs {
		if e.spec != nil && (s == nil || e.spec.used.Load() > s.used.Load()) {
			s = e.spec
		}
	}
	return s
}

// dropSpecs drops the specialisations that no session has bound, those in the making and that of the bounds aside.
func (m *Machine) dropSpecs() {
	last := m.newest()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.specs = slices.DeleteFunc(m.specs, func(e *entry) bool {
		if e.spec == nil || e.spec == m.bound || e.spec.frames.Load() > 0 {
			return false
		}
		if e.spec == last {
			m.recent = e.shapes
		}
		e.drop()
		return true
	})
}

func (m *Machine) forget(e *entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.specs = slices.DeleteFunc(m.specs, func(x *entry) bool { return x == e })
}

func sameShapes(a, b [][]int) bool {
	return slices.EqualFunc(a, b, func(x, y []int) bool { return slices.Equal(x, y) })
}

func cloneShapes(s [][]int) [][]int {
	out := make([][]int, len(s))
	for i := range s {
		out[i] = slices.Clone(s[i])
	}
	return out
}
