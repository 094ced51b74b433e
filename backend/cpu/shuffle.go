package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

func shuffleSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	s, why := fuse.ShuffleSignatures(n, "nchw16c", blocked)
	if why != nil {
		return nil, why
	}
	return append(s, operators.RowMajor(n)...), nil
}

// planShuffle emits a fused channel shuffle as one choice of channels, which the blocked layout can do, or where its neighbours are row-major as a copy.
func planShuffle(p *planner, n *graph.Node) error {
	x, groups := fuse.ShuffleParts(n)
	d := p.Dims[x.ID]
	per := d[1] / groups
	if x.Format == rowMaj {
		p.permute([]int{d[0], groups, per, d[2] * d[3]}, []int{0, 2, 1, 3}, 4, p.In(x), p.Out(n.Outputs[0]))
		return nil
	}
	table := make([]reorder.Channel, d[1])
	for c := range table {
		table[c] = reorder.Channel{Channel: c%groups*per + c/groups}
	}
	return p.gather(d[0], d[2]*d[3], []reorder.Source{{C: d[1]}}, table, []place.Memory{p.In(x)}, p.Out(n.Outputs[0]))
}

func init() {
	table.Register(operators.Pattern(fuse.ShuffleName), operator{Signatures: shuffleSignatures, Plan: planShuffle})
}
