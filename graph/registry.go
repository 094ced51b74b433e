package graph

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

var registry struct {
	sync.RWMutex
	ops map[[2]string][]*Schema // versions in ascending order; an empty list for a name that is known to be none
}

// RegisterSchema adds a version of an operator, typically from an init function. It panics on a nil schema or one that is
// registered already, those of ONNX and of carve's own domain included. Operators of users' domains, and new versions of
// known ones, are registered in the same way.
func RegisterSchema(s *Schema) {
	if s == nil || s.Name == "" {
		panic("graph: RegisterSchema of nothing")
	}
	key := [2]string{domainKey(s.Domain), s.Name}
	registry.Lock()
	defer registry.Unlock()
	list := loadLocked(key)
	i, found := slices.BinarySearchFunc(list, s.Since, func(e *Schema, since int) int { return e.Since - since })
	if found {
		panic(fmt.Sprintf("graph: schema %s since %d is registered twice", Op{s.Domain, s.Name, s.Since}, s.Since))
	}
	registry.ops[key] = slices.Insert(slices.Clone(list), i, s)
}

// LookupSchema returns the newest version of an operator that the operator set of that number has, or nil where it has none.
// The domain "ai.onnx" is the default domain "". The schemas of ONNX are read at the first lookup of each operator.
func LookupSchema(domain, name string, version int) *Schema {
	list := schemaVersions([2]string{domainKey(domain), name})
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Since <= version {
			return list[i]
		}
	}
	return nil
}

// SchemaVersions returns every version of an operator, oldest first; none for an unknown operator.
func SchemaVersions(domain, name string) []*Schema {
	return slices.Clone(schemaVersions([2]string{domainKey(domain), name}))
}

// Operators returns domain and name of every operator that has a schema, sorted by domain, then name. Since is that of
// its newest version.
func Operators() []Op {
	registry.Lock()
	defer registry.Unlock()
	for key := range onnxIndex() {
		loadLocked(key)
	}
	for _, name := range []string{OpConvert, OpFused, OpSubgraph} {
		loadLocked([2]string{CarveDomain, name})
	}
	out := make([]Op, 0, len(registry.ops))
	for key, list := range registry.ops {
		if len(list) > 0 {
			out = append(out, Op{key[0], key[1], list[len(list)-1].Since})
		}
	}
	slices.SortFunc(out, func(a, b Op) int {
		if c := strings.Compare(a.Domain, b.Domain); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
}

func domainKey(domain string) string {
	if domain == "ai.onnx" {
		return ""
	}
	return domain
}

func schemaVersions(key [2]string) []*Schema {
	registry.RLock()
	list, ok := registry.ops[key]
	registry.RUnlock()
	if ok || !ownDomain(key[0]) {
		return list
	}
	registry.Lock()
	defer registry.Unlock()
	return loadLocked(key)
}

// ownDomain reports whether the package itself knows operators of the domain; names of others are not remembered, so that
// a hostile model cannot fill the registry.
func ownDomain(domain string) bool {
	switch domain {
	case "", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training", CarveDomain:
		return true
	}
	return false
}

// loadLocked returns the registered versions of an operator after reading those of the built-in table.
func loadLocked(key [2]string) []*Schema {
	if registry.ops == nil {
		registry.ops = map[[2]string][]*Schema{}
	}
	list, ok := registry.ops[key]
	if ok {
		return list
	}
	if key[0] == CarveDomain {
		list = carveSchemas(key[1])
	} else {
		list = onnxSchemas(key)
	}
	if list != nil {
		registry.ops[key] = list
	}
	return list
}
