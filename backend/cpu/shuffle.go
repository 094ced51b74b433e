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
	return fuse.ShuffleSignatures(n, "nchw16c", blocked)
}

// planShuffle emits a fused channel shuffle as one choice of channels, which the blocked layout can do.
func planShuffle(p *planner, n *graph.Node) error {
	x, groups := fuse.ShuffleParts(n)
	d := p.Dims[x.ID]
	per := d[1] / groups
	table := make([]reorder.Channel, d[1])
	for c := range table {
		table[c] = reorder.Channel{Channel: c%groups*per + c/groups}
	}
	return p.gather(d[0], d[2]*d[3], []reorder.Source{{C: d[1]}}, table, []place.Memory{p.In(x)}, p.Out(n.Outputs[0]))
}

func init() {
	table.Register(operators.Pattern(fuse.ShuffleName), operator{Signatures: shuffleSignatures, Plan: planShuffle})
}
