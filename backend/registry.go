package backend

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Config names a backend and its options, as on the command line: --backend mkl --backend-option mkl.library=PATH.
type Config struct {
	Name    string
	Options map[string]string
}

// Driver opens a backend. The error wraps ErrUnavailable where what it needs is absent, with the reason, and ErrOption for
// options that it does not know.
type Driver func(c Config) (Backend, error)

var drivers struct {
	sync.RWMutex
	m map[string]Driver
}

// Register makes a driver known under a name: lower-case letters and digits. It is called from init, and panics on nil
// and on a name that is taken.
func Register(name string, d Driver) {
	if d == nil || name == "" {
		panic("backend: Register of nothing")
	}
	drivers.Lock()
	defer drivers.Unlock()
	if drivers.m == nil {
		drivers.m = map[string]Driver{}
	}
	if _, dup := drivers.m[name]; dup {
		panic("backend: " + name + " is registered twice")
	}
	drivers.m[name] = d
}

// Names returns the registered names, sorted.
func Names() []string {
	drivers.RLock()
	defer drivers.RUnlock()
	return slices.Sorted(maps.Keys(drivers.m))
}

// Open opens a backend by its registered name. The error wraps ErrUnknown, ErrUnavailable or ErrOption.
func Open(c Config) (Backend, error) {
	drivers.RLock()
	d := drivers.m[c.Name]
	drivers.RUnlock()
	if d == nil {
		return nil, fmt.Errorf("%w: %q (registered: %v)", ErrUnknown, c.Name, Names())
	}
	b, err := d(c)
	if err != nil {
		return nil, fmt.Errorf("backend %s: %w", c.Name, err)
	}
	return b, nil
}
