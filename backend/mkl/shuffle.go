package mkl

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/property"
)

// A channel shuffle is a primitive of the library.

func shuffleSignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	x, groups := fuse.ShuffleParts(n)
	if x == nil {
		return nil, property.Because(property.Veto, "body of %v is no shuffle", n)
	}
	act := b.activations(4)
	d := operators.AssumedDims(x)
	if why := refused(b.l.ask(b.answers, b.l.shuffle(1, d[1]/groups, in(act.Layout, d)))); why != nil {
		return nil, why
	}
	return fuse.ShuffleSignatures(n, "shuffle", act)
}

func planShuffle(p *planner, n *graph.Node) error {
	x, groups := fuse.ShuffleParts(n)
	pr, err := p.make(p.l.shuffle(1, p.Dims[x.ID][1]/groups, p.shape(x)))
	if err != nil {
		return err
	}
	d, err := p.desc(p.shape(x))
	if err != nil {
		return err
	}
	p.run(pr, arg{argSrc, p.In(x), d, false}, arg{argDst, p.Out(n.Outputs[0]), d, true})
	return nil
}

func init() {
	table.Register(operators.Pattern(fuse.ShuffleName), operator{Signatures: shuffleSignatures, Plan: planShuffle})
}
