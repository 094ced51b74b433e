package gpugroup

import (
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/lower"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// A Cast of the model's beside a conversion is a part of that: a signature of the Cast has its operand, or its result, kept as elements
// of the type on its other side (lower.KeptLayout), to which the conversion casts while it copies and reorders. Nothing is left for the
// Cast to do then, and a group takes it out before it is planned. The types of the graph's values stay what they are.

// converted is the name of such signatures.
const converted = "converted"

// castsTo returns the types of tensors that may be kept as elements of a type of floats: those that a Cast brings there by one rounding.
// Where a group falls back elements come back as the tensor's type, and the Cast makes the same of them: integers of 32 bits that float32
// rounds up to a power of two would have another sign then.
func castsTo(t gpukernel.Type) []tensor.DType {
	whole := []tensor.DType{tensor.Bool, tensor.Int8, tensor.Uint8, tensor.Int16, tensor.Uint16, tensor.Int64, tensor.Uint64}
	switch t {
	case gpukernel.F32:
		return append(whole, tensor.Float16, tensor.BFloat16, tensor.Float64)
	case gpukernel.F64:
		return append(whole, tensor.Int32, tensor.Uint32, tensor.Float32)
	case gpukernel.F16, gpukernel.BF16:
		return []tensor.DType{tensor.Float32}
	}
	return nil
}

// castSupport says how the device runs a Cast, whose kernel has a signature: by that, or by none where a conversion casts.
func (d *Device) castSupport(n, one *graph.Node, rendered graph.Signature) backend.Support {
	list := d.mergedCasts(n, one)
	if len(list) == 0 {
		return backend.Support{Signatures: []graph.Signature{rendered}}
	}
	rendered.Extra = d.Ceilings.castTime(n, one)
	return backend.Support{Signatures: append([]graph.Signature{rendered}, list...), Cost: property.Cost{Nanoseconds: 1}}
}

// mergedCasts returns the signatures of a Cast that is a part of a conversion: before the device where its operand is kept as what it
// makes, behind the device where its result is kept as what it is made of.
func (d *Device) mergedCasts(n, one *graph.Node) []graph.Signature {
	x, y := n.Inputs[0], n.Outputs[0]
	rank := len(x.Type.Shape)
	if x.IsConst() || rank == 0 {
		return nil
	}
	orders := []graph.Layout{graph.RowMajor}
	if last, ok := images(rank); ok {
		orders = []graph.Layout{last, graph.RowMajor}
	}
	var list []graph.Signature
	add := func(kept gpukernel.Type, dt tensor.DType, up bool) {
		if !slices.Contains(castsTo(kept), dt) || up && kept == d.half() {
			return // operands of products may be kept so, too, which are no Cast's
		}
		for _, order := range orders {
			l := lower.KeptLayout(kept, order)
			from, to, in, out := graph.RowMajor, l, l, order
			if !up {
				from, to, in, out = l, graph.RowMajor, order, l
			}
			if _, err := d.Reorder(from, to, dt, dims(one.Inputs[0])); err == nil {
				list = append(list, graph.Signature{Name: converted, Inputs: []graph.Port{graph.Fixed(d.format(in))}, Outputs: []graph.Port{graph.Fixed(d.format(out))}})
			}
		}
	}
	from, _ := lower.Element(x.Type.DType)
	to, _ := lower.Element(y.Type.DType)
	add(to, x.Type.DType, true)
	if _, ok := floats[from]; ok && y.Type.DType.IsFloat() {
		add(from, y.Type.DType, false)
	}
	return list
}

// castTime returns what a Cast takes by a kernel, in nanoseconds: one of its own where there is none beside it that it can be a part of.
func (c Ceilings) castTime(n, one *graph.Node) float64 {
	if c.Memory == 0 {
		return 0
	}
	x, y := n.Inputs[0], n.Outputs[0]
	if slices.ContainsFunc(y.Consumers(), rendered) || x.Producer != nil && rendered(x.Producer) && !finishes(x.Producer) {
		return fusedShare * c.Kernel
	}
	items := float64(elementsOf(one.Inputs[0]))
	bytes := items * float64(x.Type.DType.Bits()+y.Type.DType.Bits()) / 8
	return c.Kernel + bytes/(memoryShare*c.Memory) + items*c.Element
}

// rendered reports whether a node is one of those that are rendered together.
func rendered(n *graph.Node) bool {
	return n.Op.Domain == "" && !isHead(n) && !place.IsView(n) && !hostOnly(n)
}

// finishes reports whether a node is an activation that the kernel in front of it applies.
func finishes(n *graph.Node) bool {
	_, ok := activation(n)
	return ok && n.Inputs[0].Producer != nil && isHead(n.Inputs[0].Producer)
}

// CastConverters returns the converters between the host and devices, and on devices, of tensors that are kept as other elements in a layout, none for
// other layouts: those of a convert.Source, as models have few of the many that there are.
func CastConverters(l graph.Layout, devices []device.Device, c Costs, on func(i int) (*Device, Reorderer)) []convert.Converter {
	t, _, ok := lower.KeptOf(l)
	if !ok {
		return nil
	}
	types := castsTo(t)
	var list []convert.Converter
	for i := range devices {
		d, r := on(i)
		for _, rank := range []int{0, 3, 4, 5} {
			for _, pair := range Casts(rank, t) {
				if pair.Device != l {
					continue
				}
				supports := func(dt tensor.DType, of int) bool { return slices.Contains(types, dt) && (rank == 0 || of == rank) }
				list = append(list, d.converters("cast", pair, c.Reorder, d.convert, r, supports)...)
				list = append(list, d.withins("cast", pair, c.Within, r, supports)...)
			}
		}
	}
	return list
}

// uncast takes the Casts out of a group that conversions do: what values are kept as is their type and layout then. A conversion of the
// group's own from or to such a value becomes a Cast.
func uncast(g *graph.Graph) {
	kept := map[*graph.Value]graph.Layout{}
	for n := range g.Nodes() {
		if n.SigName != converted || !n.Is("Cast") {
			continue
		}
		n.Op.Name, n.Attrs = "Identity", nil
		for _, v := range []*graph.Value{n.Inputs[0], n.Outputs[0]} {
			if v.Format.Layout.IsOpaque() {
				kept[v] = v.Format.Layout
			}
		}
	}
	for n := range g.Nodes() {
		if n.IsCarve(graph.OpConvert) && (kept[n.Inputs[0]] != graph.RowMajor || kept[n.Outputs[0]] != graph.RowMajor) {
			n.Op = graph.Op{Name: "Cast"}
		}
	}
	for v, l := range kept {
		v.Type.DType, v.Format.Layout = Lies(l, v.Type.DType)
	}
}
