package repository

import (
	"context"
	"slices"
)

// makeRoom unloads models that nobody uses, those first that were not used for the longest, until more bytes fit below the limit,
// and reports whether they do.
func (r *Repository) makeRoom(more int64) bool {
	r.room.Lock()
	defer r.room.Unlock()
	type idle struct {
		e     *entry
		s     *slot
		bytes int64
	}
	var candidates []idle
	total, counted := more, map[*folder]bool{}
	for _, e := range *r.all.Load() {
		for _, s := range e.current.Load().versions {
			if !counted[s.folder] { // versions that came with one call share its files
				counted[s.folder] = true
				total += s.files
			}
			if s.evicted || !s.retain() {
				continue
			}
			n, users := s.Bytes(), s.refs.Load()
			s.unhold()
			total += n
			if users == 2 && (s.Sequences == nil || s.Sequences.Len() == 0) { // the repository's, and the one above
				candidates = append(candidates, idle{e, s, n})
			}
		}
	}
	slices.SortFunc(candidates, func(a, b idle) int { return int(min(max(a.s.used.Load()-b.s.used.Load(), -1), 1)) })
	for _, c := range candidates {
		if total <= r.o.MemoryLimit {
			break
		}
		if c.e.evict(c.s) {
			total -= c.bytes
			r.o.Logger.Info("a model is unloaded to make room", "model", c.e.name, "version", c.s.Number, "bytes", c.bytes)
		}
	}
	return total <= r.o.MemoryLimit
}

// unhold is Release of a look, which does not count as a use.
func (v *Version) unhold() {
	used := v.used.Load()
	v.Release()
	v.used.Store(used)
}

// evict puts a note in the place of a version; false where the name stands for something else by now.
func (e *entry) evict(s *slot) bool {
	gone := *s
	gone.evicted = true
	return e.exchange(s, &gone)
}

// exchange puts a slot in the place of another, and reports whether that was there.
func (e *entry) exchange(from, to *slot) (done bool) {
	e.replace(func(now *snapshot) *snapshot {
		i := slices.Index(now.versions, from)
		if i < 0 {
			return now
		}
		next := *now
		next.versions = slices.Clone(now.versions)
		next.versions[i] = to
		done = true
		return &next
	})
	return done
}

// bringBack loads a version again that was unloaded to make room. One caller loads, others wait for it.
func (r *Repository) bringBack(ctx context.Context, e *entry, gone *slot) error {
	e.loading.Lock()
	defer e.loading.Unlock()
	if !slices.Contains(e.current.Load().versions, gone) {
		return nil // somebody has
	}
	s := *gone
	s.evicted = false
	var err error
	if s.Version, err = r.loadRoom(ctx, e, &s, 0); err != nil {
		return err
	}
	if !e.exchange(gone, &s) {
		s.Release()
	}
	return nil
}
