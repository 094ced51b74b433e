package plugin

import (
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math"
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// Supports implements backend.Backend. The plugin is asked about nodes of the operators that it lists, in the versions that
// it knows, whose operands are tensors.
func (b *Backend) Supports(n *graph.Node) backend.Support {
	if !n.IsCarve("Fused") {
		if no := b.refuses(n); no != nil {
			return backend.Support{Reason: no}
		}
	}
	l := b.p.l
	w, done := b.p.writer()
	defer done()
	d := l.describe(w, []*graph.Node{n})
	s, node := one[cSupport](w), one[uint32](w)
	said := many[byte](w, errorBytes)
	*s = cSupport{size: uint32(unsafe.Sizeof(*s)), status: statusNotImplemented, text: address(&said[0]), cap: errorBytes}
	out := list(w, []uintptr{address(s)})
	if w.err != nil {
		return backend.No(property.Unsupported, "%v", w.err)
	}
	if err := b.p.do(w, "supports", l.table.supports, b.p.handle(), address(d.at), address(node), 1, out); err != nil {
		return backend.No(property.Unsupported, "%v", err)
	}
	if s.status != statusOK {
		reason := written(said, s.len)
		if reason == "" {
			reason = "the plugin gives no reason"
		}
		return backend.No(reasonCode(s.reason), "%s", reason)
	}
	sigs, err := b.signatures(w.side, n, s)
	if err != nil {
		return backend.No(property.Unsupported, "%v", err)
	}
	return backend.Support{Signatures: sigs, Cost: property.Cost{Nanoseconds: amount(s.ns), FLOPs: amount(s.flops), Bytes: amount(s.bytes)}}
}

// amount is a number of the plugin's that has to be finite and not negative, 0 where it is not.
func amount(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 0) {
		return 0
	}
	return x
}

// refuses looks at the list of operators.
func (b *Backend) refuses(n *graph.Node) *property.Reason {
	ops := b.operators[operator{n.Op.Domain, n.Op.Name}]
	if len(ops) == 0 {
		return property.Because(property.Unsupported, "the plugin has no %v", n.Op)
	}
	schema := graph.LookupSchema(n.Op.Domain, n.Op.Name, n.Op.Since)
	var why *property.Reason
	for _, op := range ops {
		if why = versionFits(n, &op, schema); why == nil {
			return typesFit(n, &op)
		}
	}
	return why
}

// versionFits returns nil where an entry is about the version of n's operator.
func versionFits(n *graph.Node, op *cOp, schema *graph.Schema) *property.Reason {
	since := int32(min(n.Op.Since, math.MaxInt32))
	if since < op.sinceMin || op.sinceMax > 0 && since > op.sinceMax {
		upto := "the newest"
		if op.sinceMax > 0 {
			upto = fmt.Sprint(op.sinceMax)
		}
		return property.Because(property.Version, "the plugin has %v from version %d to %s, wanted is %d", n.Op, op.sinceMin, upto, n.Op.Since)
	}
	if op.digest != 0 && schema != nil && op.digest != Digest(schema) {
		return property.Because(property.Version, "the plugin's schema of %v, version %d, has the digest %016x, carve's has %016x", n.Op,
			n.Op.Since, op.digest, Digest(schema))
	}
	return nil
}

// typesFit returns nil where n's operands and results are tensors of the entry's types.
func typesFit(n *graph.Node, op *cOp) *property.Reason {
	check := func(v *graph.Value) *property.Reason {
		if v == nil {
			return nil
		}
		if !v.Type.IsTensor() || v.Type.DType == tensor.String {
			return property.Because(property.DTypeReason, "%v is %v", v, v.Type)
		}
		if op.types != 0 && op.types>>uint(v.Type.DType)&1 == 0 {
			return property.Because(property.DTypeReason, "%v has elements of type %v, which the plugin does not list", v, v.Type.DType)
		}
		return nil
	}
	for _, v := range slices.Concat(n.Inputs, n.Outputs) {
		if why := check(v); why != nil {
			return why
		}
	}
	return nil
}

func reasonCode(c uint32) property.Code {
	codes := [...]property.Code{property.Unsupported, property.Version, property.DTypeReason, property.ShapeReason, property.DynamicShape,
		property.Attribute, property.Layout}
	if int(c) >= len(codes) {
		return property.Unsupported
	}
	return codes[c]
}

// signatures reads in which formats a plugin takes a node.
func (b *Backend) signatures(from side, n *graph.Node, s *cSupport) ([]graph.Signature, error) {
	if s.nSignatures == 0 {
		return []graph.Signature{graph.UniformSignature("row-major", n, graph.Format{Device: b.p.id})}, nil
	}
	list, err := views[cSignature](from, s.signatures, uint64(s.nSignatures), "signature")
	if err != nil {
		return nil, err
	}
	out := make([]graph.Signature, len(list))
	for i, c := range list {
		if int(c.nInputs) != len(n.Inputs) || int(c.nOutputs) != len(n.Outputs) {
			return nil, fmt.Errorf("%w: signature %d of %v has %d inputs and %d outputs, not %d and %d", ErrPlugin, i, n.Op, c.nInputs, c.nOutputs,
				len(n.Inputs), len(n.Outputs))
		}
		sig := graph.Signature{Name: from.text(c.name), Extra: amount(c.extraNS)}
		if sig.Inputs, err = b.ports(from, c.inputs, c.nInputs, c.nVariables); err != nil {
			return nil, err
		}
		if sig.Outputs, err = b.ports(from, c.outputs, c.nOutputs, c.nVariables); err != nil {
			return nil, err
		}
		vars, err := views[cFormats](from, c.variables, uint64(c.nVariables), "variable")
		if err != nil {
			return nil, err
		}
		for _, v := range vars {
			formats, err := b.formats(from, &v)
			if err != nil {
				return nil, err
			}
			sig.Vars = append(sig.Vars, formats)
		}
		out[i] = sig
	}
	return out, nil
}

func (b *Backend) formats(from side, c *cFormats) ([]graph.Format, error) {
	list, err := words[uintptr](from, c.formats, uint64(c.n), "formats of a variable")
	if err != nil {
		return nil, err
	}
	out := make([]graph.Format, len(list))
	for i, at := range list {
		if out[i], err = b.p.readFormat(from, at); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (b *Backend) ports(from side, at uintptr, n, variables uint32) ([]graph.Port, error) {
	list, err := views[cPortFormat](from, at, uint64(n), "port")
	if err != nil {
		return nil, err
	}
	out := make([]graph.Port, len(list))
	for i, c := range list {
		switch {
		case c.variable > variables:
			return nil, fmt.Errorf("%w: port %d has variable %d of %d", ErrPlugin, i, c.variable, variables)
		case c.variable > 0:
			out[i] = graph.Variable(int(c.variable) - 1)
		default:
			f, err := b.p.readFormat(from, c.format)
			if err != nil {
				return nil, err
			}
			out[i] = graph.Fixed(f)
		}
	}
	return out, nil
}

// Digest is a number for a schema: a change of name, version, operands, results, types or attributes changes it. A plugin
// that was written against one gives it in carve_op.
func Digest(s *graph.Schema) uint64 {
	h := fnv.New64a()
	put := func(format string, args ...any) { fmt.Fprintf(h, format, args...) }
	put("%s\x00%s\x00%d\n", s.Domain, s.Name, s.Since)
	params := func(kind string, list []graph.Param) {
		for _, p := range list {
			put("%s\x00%s\x00%s\x00%t%t%t\n", kind, p.Name, p.Type, p.Optional, p.Variadic, p.Hetero)
		}
	}
	params("input", s.Inputs)
	params("output", s.Outputs)
	for _, name := range slices.Sorted(maps.Keys(s.Types)) {
		put("type\x00%s\x00%q\n", name, slices.Sorted(slices.Values(s.Types[name])))
	}
	for _, a := range s.Attrs {
		def := ""
		if a.Default != nil {
			def = a.Default.String()
		}
		put("attribute\x00%s\x00%d\x00%t\x00%s\n", a.Name, a.Kind, a.Required, def)
	}
	_, _ = io.WriteString(h, "\n")
	return h.Sum64()
}
