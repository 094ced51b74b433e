package repository

import (
	"errors"
	"slices"
)

// maxSpent bounds the names that clients have made up by calls to load, and that stand for no model: those whose files did not load, or were
// unloaded. The index tells of them, until others come.
const maxSpent = 256

// errOver is the error of a load into an entry that has been forgotten.
var errOver = errors.New("the name has been forgotten")

// spend notes that a name stands for no model, where it does, and forgets the oldest of such names that lie in no folder where
// there are many. It is called with e.loading held.
func (r *Repository) spend(e *entry) {
	if e.over || len(e.current.Load().versions) > 0 {
		return
	}
	r.mu.Lock()
	if e.lies {
		r.mu.Unlock()
		return
	}
	r.spent = append(slices.DeleteFunc(r.spent, func(name string) bool { return name == e.name }), e.name)
	var oldest *entry
	if len(r.spent) > maxSpent {
		oldest, r.spent = r.models[r.spent[0]], r.spent[1:]
	}
	r.mu.Unlock()
	if oldest != nil && oldest != e {
		r.forget(oldest)
	}
}

// forget takes a name out, unless it stands for a model again, or is about to.
func (r *Repository) forget(e *entry) {
	if !e.loading.TryLock() { // another load, which notes it anew where it fails
		return
	}
	defer e.loading.Unlock()
	if len(e.current.Load().versions) > 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.models[e.name] == e && !e.lies {
		e.over = true
		delete(r.models, e.name)
		r.publish()
	}
}
