package memplan_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/carve-dev/carve/memplan"
)

func ExamplePack() {
	bufs := []memplan.Buffer{
		{ID: "input", Size: 400, Lower: 0, Upper: 2},
		{ID: "hidden", Size: 300, Lower: 1, Upper: 3},
		{ID: "output", Size: 400, Lower: 2, Upper: 4},
	}
	plan, err := memplan.Pack(context.Background(), bufs, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(plan.Height, plan.LowerBound, plan.Optimal)
	fmt.Println(memplan.Verify(bufs, plan.Offsets, plan.Height))
	// Output:
	// 700 700 true
	// <nil>
}

func ExamplePack_capacity() {
	bufs := []memplan.Buffer{
		{Size: 400, Lower: 0, Upper: 2},
		{Size: 300, Lower: 1, Upper: 3},
	}
	_, err := memplan.Pack(context.Background(), bufs, &memplan.Options{Capacity: 600})
	fmt.Println(errors.Is(err, memplan.ErrInfeasible))
	// Output: true
}

func ExamplePack_inPlace() {
	// The output of an activation may overwrite its input.
	bufs := []memplan.Buffer{
		{ID: "x", Size: 64, Lower: 0, Upper: 2},
		{ID: "relu(x)", Size: 64, Lower: 1, Upper: 3, Share: []int{0}},
	}
	plan, err := memplan.Pack(context.Background(), bufs, nil)
	fmt.Println(plan.Offsets, plan.Height, err)
	// Output: [0 0] 64 <nil>
}

func ExampleWriteCSV() {
	bufs := []memplan.Buffer{{ID: "a", Size: 4, Lower: 0, Upper: 3}, {ID: "b", Size: 8, Lower: 2, Upper: 5}}
	plan, err := memplan.Greedy(bufs)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := memplan.WriteCSV(os.Stdout, bufs, plan.Offsets); err != nil {
		fmt.Println(err)
	}
	// Output:
	// id,lower,upper,size,offset
	// a,0,3,4,0
	// b,2,5,8,4
}
