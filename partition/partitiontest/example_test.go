package partitiontest_test

import (
	"context"
	"fmt"

	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/partition/partitiontest"
	"github.com/carve-dev/carve/property"
)

// A property that fuses pairs, on a backend that takes two operators.
func ExampleRun() {
	out, err := partitiontest.Run(context.Background(), &partitiontest.Case{
		Graph:      partitiontest.Lines("d", "a = Neg(x)", "b = Abs(a)", "c = Exp(b)", "d = Neg(c)"),
		Takes:      []string{"Neg", "Abs"},
		Properties: []property.SubgraphProperty{property.NewPattern("neg-abs", property.Sequence("Neg", "Abs"), nil)},
		Options:    partition.Options{MinNodes: 2},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, list := range [][]string{out.Groups, out.Bans, out.Reasons} {
		for _, s := range list {
			fmt.Println(s)
		}
	}
	// Output:
	// own: (a b)
	// rest: c d
	// d not on own, by review-groups: too-small: its group has 1 nodes, of at least 2
	// c not on own: unsupported: not accepted by this instance
	// d not on own: too-small: its group has 1 nodes, of at least 2
	// a not on rest: priority: own comes before it in the list, and has the node
	// b not on rest: priority: own comes before it in the list, and has the node
}
