package schedule_test

import (
	"context"
	"fmt"
	"log"

	"github.com/carve-dev/carve/memplan/schedule"
)

// Three steps: the second may overwrite its input, the third has workspace. The output is the caller's.
func ExampleMake() {
	p := &schedule.Problem{
		Values: []schedule.Value{{Bytes: 4096, Planned: true}, {Bytes: 4096, Planned: true}, {Bytes: 4096}},
		Steps: []schedule.Step{
			{Outputs: []schedule.Port{{Value: 0}}},
			{Inputs: []schedule.Port{{Value: 0}}, Outputs: []schedule.Port{{Value: 1}}, InPlace: []schedule.Pair{{Output: 0, Input: 0}}},
			{Inputs: []schedule.Port{{Value: 1}}, Outputs: []schedule.Port{{Value: 2}}, Buffers: []schedule.Buffer{{Bytes: 1000}}},
		},
	}
	plan, err := schedule.Make(context.Background(), p, true)
	if err != nil {
		log.Fatal(err)
	}
	a := plan.Arenas[0]
	fmt.Println("arena", a.Height, "lower bound", a.LowerBound, "naive", a.Naive)
	fmt.Println("values", plan.Values, "workspace", plan.Buffers[2])
	// Output:
	// arena 5120 lower bound 5120 naive 9216
	// values [0 0 -1] workspace [4096]
}

// Two branches of value 0: one swells to 100 bytes on its way to 1, the other takes 10 all the way. It is better to run
// the first one to its end before the second begins.
func ExampleOrder() {
	g := &schedule.Graph{
		Bytes: []int64{1, 10, 100, 1, 1},
		Nodes: []schedule.Node{
			{Outputs: []int{0}},
			{Inputs: []int{0}, Outputs: []int{1}},
			{Inputs: []int{0}, Outputs: []int{2}},
			{Inputs: []int{2}, Outputs: []int{3}},
			{Inputs: []int{1, 3}, Outputs: []int{4}},
		},
	}
	o, err := schedule.Order(context.Background(), g, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(o.Order, o.Before, o.After, o.Optimal)
	// Output:
	// [0 2 3 1 4] 111 102 true
}
