package dl

import (
	"errors"
	"sync"
)

// Opened are the libraries of one kind that the process has open, as L, by the names or paths that they were opened by. The zero value
// has none. It is safe for concurrent use.
type Opened[L any] struct {
	mu   sync.Mutex
	list map[string]*L
}

// First returns the library of the first name that load takes, the one that is open already where there is one. The error joins those
// of load for all names.
func (o *Opened[L]) First(names []string, load func(name string) (*L, error)) (*L, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var tried []error
	for _, name := range names {
		if l := o.list[name]; l != nil {
			return l, nil
		}
		l, err := load(name)
		if err != nil {
			tried = append(tried, err)
			continue
		}
		if o.list == nil {
			o.list = map[string]*L{}
		}
		o.list[name] = l
		return l, nil
	}
	return nil, errors.Join(tried...)
}
