package property

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/carve-dev/carve/graph"
)

// Errors for errors.Is.
var (
	ErrUnknown = errors.New("unknown property")
	ErrOption  = errors.New("bad property option")
)

// Driver makes a property from options: a JSON object, nil where none are given. The error wraps ErrOption; DecodeOptions
// helps.
type Driver func(name string, options []byte) (SubgraphProperty, error)

var drivers struct {
	sync.RWMutex
	m map[string]Driver
}

// Register makes a driver known under a name: lower-case words with hyphens. It is called from init, and panics on nil and
// on a name that is taken.
func Register(name string, d Driver) {
	if d == nil || name == "" {
		panic("property: Register of nothing")
	}
	drivers.Lock()
	defer drivers.Unlock()
	if drivers.m == nil {
		drivers.m = map[string]Driver{}
	}
	if _, dup := drivers.m[name]; dup {
		panic("property: " + name + " is registered twice")
	}
	drivers.m[name] = d
}

// Registered returns the registered names, sorted.
func Registered() []string {
	drivers.RLock()
	defer drivers.RUnlock()
	return slices.Sorted(maps.Keys(drivers.m))
}

// Open makes a property by the registered name of its driver. The error wraps ErrUnknown or ErrOption.
func Open(driver string, options []byte) (SubgraphProperty, error) {
	return open(driver, driver, options)
}

// open makes a property that is to have a name of its own.
func open(driver, name string, options []byte) (SubgraphProperty, error) {
	drivers.RLock()
	d := drivers.m[driver]
	drivers.RUnlock()
	if d == nil {
		return nil, fmt.Errorf("%w: %q (registered: %s)", ErrUnknown, driver, capped(Registered()))
	}
	p, err := d(name, options)
	if err != nil {
		return nil, fmt.Errorf("property %s: %w", driver, err)
	}
	if p == nil {
		return nil, fmt.Errorf("property %s: %w: its driver made nothing", driver, ErrOption)
	}
	return p, nil
}

// DecodeOptions reads a driver's options into a struct; unknown fields are errors. Nil options leave it as it is. The error
// wraps ErrOption.
func DecodeOptions(options []byte, into any) error {
	if options == nil {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(options))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("%w: %w", ErrOption, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("%w: something follows the object", ErrOption)
	}
	return nil
}

// The ready-made properties that have names.
func init() {
	Register("op-list", func(name string, options []byte) (SubgraphProperty, error) {
		var o struct {
			Ops []string `json:"ops"`
		}
		if err := DecodeOptions(options, &o); err != nil {
			return nil, err
		}
		if len(o.Ops) == 0 {
			return nil, fmt.Errorf("%w: ops is empty", ErrOption)
		}
		return Nodes(name, Ops(o.Ops...)), nil
	})
	Register("name-list", func(name string, options []byte) (SubgraphProperty, error) {
		var o struct {
			Names []string `json:"names"`
		}
		if err := DecodeOptions(options, &o); err != nil {
			return nil, err
		}
		if len(o.Names) == 0 {
			return nil, fmt.Errorf("%w: names is empty", ErrOption)
		}
		return Nodes(name, Named(o.Names...)), nil
	})
	plain := func(p Predicate) Driver {
		return func(name string, options []byte) (SubgraphProperty, error) {
			if err := DecodeOptions(options, &struct{}{}); err != nil {
				return nil, err
			}
			return WithKind(Admitting, Nodes(name, p)), nil
		}
	}
	Register("static-shape", plain(StaticShapes))
	Register("planned-shape", plain(PlannedShapes))
	Register("sequence", func(name string, options []byte) (SubgraphProperty, error) {
		var o struct {
			Ops []string `json:"ops"`
		}
		if err := DecodeOptions(options, &o); err != nil {
			return nil, err
		}
		if len(o.Ops) == 0 {
			return nil, fmt.Errorf("%w: ops is empty", ErrOption)
		}
		return NewPattern(name, Sequence(o.Ops...), nil), nil
	})
	Register("min-benefit", func(name string, options []byte) (SubgraphProperty, error) {
		var o struct {
			PerNode  *float64 `json:"per_node"`
			PerValue float64  `json:"per_value"`
			PerByte  float64  `json:"per_byte"`
			Symbol   int      `json:"symbol"`
			Least    float64  `json:"least"`
		}
		if err := DecodeOptions(options, &o); err != nil {
			return nil, err
		}
		b := Benefit{PerValue: o.PerValue, PerByte: o.PerByte, Symbol: o.Symbol}
		if o.PerNode != nil {
			gain := *o.PerNode
			b.PerNode = func(*graph.Node) float64 { return gain }
		}
		return MinBenefit(name, b, o.Least), nil
	})
}
