package property

import (
	"github.com/carve-dev/carve/graph"
)

// Benefit models what a group is worth: what its nodes gain by running on its backend and not on the next one, less what its
// boundary costs. Times are nanoseconds.
type Benefit struct {
	// PerNode is the gain of a node; nil means 1000 for each.
	PerNode func(n *graph.Node) float64
	// PerValue is the cost of each value that crosses the boundary, either way, and PerByte that of each of its bytes.
	// Constants cost nothing.
	PerValue, PerByte float64
	// Symbol is the size that stands for every dim that is not constant; 0 means 1.
	Symbol int
}

// MinBenefit returns the property that gives a finished group back where its benefit is below least. It selects nothing; it
// reviews.
func MinBenefit(name string, b Benefit, least float64) SubgraphProperty {
	return &minBenefit{name, b, least}
}

type minBenefit struct {
	name  string
	b     Benefit
	least float64
}

// Name implements SubgraphProperty.
func (m *minBenefit) Name() string { return m.name }

// Kind implements Kinded.
func (m *minBenefit) Kind() Kind { return Bounding }

// NewSelector implements SubgraphProperty.
func (m *minBenefit) NewSelector(*graph.Graph) Selector { return nothing{} }

// Review implements Reviewer.
func (m *minBenefit) Review(sub *graph.Graph) ([]int, *Reason) {
	if worth := m.b.of(sub); worth < m.least {
		return nil, Because(TooSmall, "a group of %d nodes is worth %.0f ns, of at least %.0f", sub.NumNodes(), worth, m.least)
	}
	return KeepAll(sub), nil
}

// of returns the benefit of a group.
func (b *Benefit) of(sub *graph.Graph) float64 {
	worth := 0.0
	for n := range sub.Nodes() {
		if b.PerNode == nil {
			worth += 1000
		} else {
			worth += b.PerNode(n)
		}
	}
	for _, vs := range [][]*graph.Value{sub.Inputs, sub.Outputs} {
		for _, v := range vs {
			worth -= b.PerValue + b.PerByte*float64(b.bytes(v.Type))
		}
	}
	return worth
}

func (b *Benefit) bytes(t graph.Type) int64 {
	if !t.IsTensor() || !t.Shape.Known() {
		return 0
	}
	n := 1.0
	for _, d := range t.Shape {
		if c, ok := d.Const(); ok {
			n *= float64(c)
		} else {
			n *= float64(max(b.Symbol, 1))
		}
	}
	return int64(min(n*float64(t.DType.Bits())/8, 1<<60))
}
