package main

// #include "table.h"
import "C"

import (
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/backend/plugin"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// offered returns the versions of all operators that there are kernels for: of which of them supports says. Operators with
// bodies are the host's.
func offered() []*graph.Schema {
	var out []*graph.Schema
	for _, op := range graph.Operators() {
		list := graph.SchemaVersions(op.Domain, op.Name)
		newest := list[len(list)-1]
		body := slices.ContainsFunc(newest.Attrs, func(a graph.AttrSpec) bool { return a.Kind == graph.AttrNone })
		if op.Domain == graph.CarveDomain || body {
			continue
		}
		if reference.Supports(graph.New("").AddNode(graph.NodeSpec{Op: op})) == nil { // it has all that cpu has
			out = append(out, list...)
		}
	}
	return out
}

//export accOperators
func accOperators(b C.uint64_t, out ***C.carve_op, n *C.uint64_t) (st C.int32_t) {
	defer guard(&st, nil)
	u := of[*unit](b)
	list := offered()
	ops, at := many[C.carve_op](&u.c, len(list)), many[*C.carve_op](&u.c, len(list))
	for i, s := range list {
		ops[i] = C.carve_op{size: C.uint32_t(unsafe.Sizeof(ops[i])), since_min: C.int32_t(s.Since), since_max: C.int32_t(s.Since),
			domain: u.c.text(s.Domain), name: u.c.text(s.Name), digest: C.uint64_t(plugin.Digest(s))}
		at[i] = &ops[i]
	}
	*out, *n = &at[0], C.uint64_t(len(at))
	return C.CARVE_OK
}

//export accSupports
func accSupports(b C.uint64_t, g *C.carve_graph, nodes *C.uint32_t, n C.uint64_t, out **C.carve_support, e *C.carve_error) (st C.int32_t) {
	defer guard(&st, e)
	u := of[*unit](b)
	d, err := u.read(g)
	answers := unsafe.Slice(out, int(n))
	for i, k := range unsafe.Slice((*uint32)(unsafe.Pointer(nodes)), int(n)) {
		if err != nil {
			refuse(answers[i], property.Because(property.Unsupported, "%v", err))
			continue
		}
		if why := u.refuses(d.nodes[k]); why != nil {
			refuse(answers[i], why)
			continue
		}
		answers[i].status, answers[i].n_signatures = C.CARVE_OK, 1
		answers[i].signatures = u.signature(d.nodes[k], g)
	}
	return C.CARVE_OK
}

// refuses returns why none of the kernels takes a node.
func (u *unit) refuses(n *graph.Node) *property.Reason {
	var why *property.Reason
	for _, k := range u.kernels {
		if why = k.Supports(n).Reason; why == nil {
			return nil
		}
	}
	return why
}

// codes are the reasons by the interface's numbers.
var codes = []property.Code{property.Unsupported, property.Version, property.DTypeReason, property.ShapeReason, property.DynamicShape,
	property.Attribute, property.Layout}

func refuse(s *C.carve_support, why *property.Reason) {
	s.status, s.reason = C.CARVE_REFUSED, C.uint32_t(max(slices.Index(codes, why.Code), 0))
	s.len = C.uint64_t(copy(unsafe.Slice((*byte)(unsafe.Pointer(s.text)), int(s.cap)), why.Detail))
}

// smallConstant is how many elements a constant may have that stays on the host.
const smallConstant = 64

// signature returns a list of one signature: everything row-major in the unit's memory, but for small constants, of axes
// and the like, by whose content kernels are chosen, and for sizes. They stay on the host.
func (u *unit) signature(n *graph.Node, g *C.carve_graph) **C.carve_signature {
	sizes := map[string]bool{}
	for _, i := range indices(g.constants, g.n_constants) {
		if unsafe.Slice(g.values, int(g.n_values))[i].constant == nil {
			sizes[valueName(i)] = true
		}
	}
	key := []byte{byte(len(n.Outputs))}
	for _, v := range n.Inputs {
		onHost := v != nil && (sizes[v.Name] || v.IsConst() && (v.Const.DType != tensor.Float32 || v.Const.Len() <= smallConstant))
		key = append(key, map[bool]byte{false: 'u', true: 'h'}[onHost])
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if s := u.signatures[string(key)]; s != nil {
		return s
	}
	f := &many[C.carve_format](&u.c, 1)[0]
	*f = C.carve_format{size: C.uint32_t(unsafe.Sizeof(*f)), device_type: 12}
	ports := many[C.carve_port_format](&u.c, 2)
	ports[0] = C.carve_port_format{size: C.uint32_t(unsafe.Sizeof(ports[0])), format: f}
	ports[1] = C.carve_port_format{size: ports[0].size} // the host's
	in, out := many[*C.carve_port_format](&u.c, len(n.Inputs)+1), many[*C.carve_port_format](&u.c, len(n.Outputs)+1)
	for i := range n.Inputs {
		in[i] = &ports[0]
		if key[1+i] == 'h' {
			in[i] = &ports[1]
		}
	}
	for i := range n.Outputs {
		out[i] = &ports[0]
	}
	s, list := &many[C.carve_signature](&u.c, 1)[0], many[*C.carve_signature](&u.c, 1)
	*s = C.carve_signature{size: C.uint32_t(unsafe.Sizeof(*s)), n_inputs: C.uint32_t(len(n.Inputs)), n_outputs: C.uint32_t(len(n.Outputs)),
		name: u.c.text("row-major"), inputs: &in[0], outputs: &out[0]}
	list[0] = s
	u.signatures[string(key)] = &list[0]
	return &list[0]
}
