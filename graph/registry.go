package graph

import (
	"fmt"
	"slices"
	"sync"
)

var registry struct {
	sync.RWMutex
	ops map[[2]string][]*Schema // versions in ascending order
}

// RegisterSchema adds a version of an operator, typically from an init function. It panics on a nil schema or one that is
// registered already. Operators of carve's own domain and of users' domains are registered in the same way.
func RegisterSchema(s *Schema) {
	if s == nil || s.Name == "" {
		panic("graph: RegisterSchema of nothing")
	}
	registry.Lock()
	defer registry.Unlock()
	if registry.ops == nil {
		registry.ops = map[[2]string][]*Schema{}
	}
	key := [2]string{s.Domain, s.Name}
	list := registry.ops[key]
	i, found := slices.BinarySearchFunc(list, s.Since, func(e *Schema, since int) int { return e.Since - since })
	if found {
		panic(fmt.Sprintf("graph: schema %s since %d is registered twice", Op{s.Domain, s.Name, s.Since}, s.Since))
	}
	registry.ops[key] = slices.Insert(list, i, s)
}

// LookupSchema returns the newest form of an operator that an operator set of that version has, or nil where it has none.
// The domain "ai.onnx" is the default domain "".
func LookupSchema(domain, name string, version int) *Schema {
	if domain == "ai.onnx" {
		domain = ""
	}
	registry.RLock()
	defer registry.RUnlock()
	list := registry.ops[[2]string{domain, name}]
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Since <= version {
			return list[i]
		}
	}
	return nil
}
