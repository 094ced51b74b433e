package property_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

const exampleNet = `graph "net" {
  opset 17
  input %x: f32[1,8,4,4]
  const %w = f32[1]{1}
  %c: f32[1,8,4,4] = Conv(%x, %w) "c"
  %s: f32[1,8,4,4] = Add(%c, %x) "s"
  %r: f32[1,8,4,4] = Relu(%s) "r"
  %e: f32[1,8,4,4] = Exp(%r) "e"
  %d: f32[1,8,4,4] = Conv(%e, %w) "d"
  output %d
}
`

// show prints the sets that a property chooses.
func show(p property.SubgraphProperty) {
	g, err := graph.Parse(exampleNet)
	if err != nil {
		fmt.Println(err)
		return
	}
	taken := map[*graph.Node]bool{}
	err = property.Sets(context.Background(), g, p,
		func(n *graph.Node) bool { return !taken[n] },
		func(set []*graph.Node) bool {
			var names []string
			for _, n := range set {
				taken[n] = true
				names = append(names, n.Name)
			}
			fmt.Println(p.Name()+":", strings.Join(names, " "))
			return true
		},
		func(n *graph.Node, why *property.Reason) { fmt.Println("not", n.Name+":", why) })
	if err != nil {
		fmt.Println(err)
	}
}

// Connected sets of nodes that a predicate qualifies.
func ExampleNodes() {
	show(property.Nodes("convolutions", property.Ops("Conv", "Add", "Relu")))
	// Output:
	// convolutions: c s r
	// not e: unsupported (convolutions): Exp is not among Conv, Add, Relu
	// convolutions: d
}

// A fusion of a convolution and what follows it, unless the sum has another shape than the convolution's result.
func ExampleNewPattern() {
	tail := property.Sequence("Conv", "Add", "Relu|Clip?")
	show(property.NewPattern("conv-tail", tail, func(m *property.Match) *property.Reason {
		conv, sum := m.Named("Conv").Outputs[0].Type, m.Named("Add").Outputs[0].Type
		if !conv.Equal(sum) {
			return property.Because(property.ShapeReason, "%v is not %v", sum, conv)
		}
		return nil
	}))
	// Output:
	// conv-tail: c s r
}

// Sets of bounded size: the smaller ones say why they are none.
func ExampleLimit() {
	show(property.Limit(property.Nodes("convolutions", property.Not(property.Ops("Exp"))), property.Bounds{Min: 2, Max: 8}))
	// Output:
	// convolutions: c s r
	// not e: not-selected (convolutions): it is excluded
	// not d: too-small (convolutions): a set of 1 nodes, of at least 2
}

// Pins and properties from a file.
func ExampleReadConfig() {
	c, err := property.ReadConfig(strings.NewReader(`{
	  "pins": [{"node": "e", "backend": "reference"}],
	  "properties": [{"backend": "cpu", "property": "op-list", "name": "pairs", "max_nodes": 2, "options": {"ops": ["Conv", "Add", "Relu"]}}]
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%+v\n", c.Pins[0])
	show(property.Where(c.Properties["cpu"][0], property.Any(property.Ops("Conv", "Add"))))
	_, err = property.ReadConfig(strings.NewReader("{\n  \"pins\": [{\"op\": \"Conv\"}]\n}"))
	fmt.Println(err)
	// Output:
	// {Node:e Op: Backend:reference Exclude:false}
	// pairs: c s
	// not r: unsupported (pairs): Relu is not among Conv, Add
	// not e: unsupported (pairs): Exp is not among Conv, Add
	// pairs: d
	// line 2, column 12: pins[0]: backend is missing
}
