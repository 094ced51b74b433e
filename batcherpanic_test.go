package carve_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph/tensor"
)

// brought is what a caller gives a Batcher, of which one function panics now and then.
type brought struct {
	spoilt string
	calls  atomic.Int64
}

func (b *brought) at(function string) {
	if function == b.spoilt && b.calls.Add(1)%5 == 0 {
		panic("out of order: " + function)
	}
}

func (b *brought) Try() bool { b.at("Try"); return false }
func (b *brought) Done()     { b.at("Done") }
func (b *brought) Wait(context.Context) error {
	b.at("Wait")
	time.Sleep(100 * time.Microsecond) // other calls join
	return nil
}

func (b *brought) options() *carve.BatchOptions {
	return &carve.BatchOptions{MaxBatch: 8, Independent: true, Turns: b, Sessions: 1,
		Do: func() func(run func()) {
			b.at("Do")
			return func(run func()) {
				b.at("what Do returns")
				if b.spoilt != "what Do returns, which does nothing" {
					run()
				}
			}
		},
		Observer: carve.BatchObserver{
			Queued:   func(context.Context, carve.BatchQueued) { b.at("Queued") },
			Ran:      func(carve.BatchRun) { b.at("Ran") },
			Answered: func(context.Context, carve.BatchAnswer) { b.at("Answered") },
		}}
}

var _ = Describe("a Batcher", func() {
	DescribeTable("goes on, and closes, where a function of the caller's panics", func(ctx SpecContext, function string) {
		one := &brought{spoilt: function}
		_, b := batched(ctx, rowsText, nil, one.options())
		var wrong, right atomic.Int64
		call := func(x *tensor.Tensor, want float32) {
			defer func() {
				if r := recover(); r != nil && r != "out of order: "+function {
					panic(r)
				}
			}()
			out, err := b.Run(ctx, map[string]tensor.Value{"x": x})
			switch {
			case err != nil:
			case tensor.Of[float32](out["z"].(*tensor.Tensor))[0] != want:
				wrong.Add(1)
			default:
				right.Add(1)
			}
		}
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				v := float32(i)
				for range 30 {
					call(tensor.From([]float32{v, v, v, v}, 1, 4), 4*v)
				}
			})
		}
		closed := make(chan error, 1)
		go func() {
			all.Wait()
			closed <- b.Close()
		}()
		Eventually(closed, 30*time.Second).Should(Receive(BeNil()))
		Expect(wrong.Load()).To(BeZero())
		if function != "what Do returns, which does nothing" {
			Expect(right.Load()).To(BeNumerically(">", 0), fmt.Sprint(one.calls.Load()))
		}
		Expect(b.Stats().Running).To(BeZero())
	}, func(function string) string { return function },
		Entry(nil, "Queued"), Entry(nil, "Try"), Entry(nil, "Wait"), Entry(nil, "Done"), Entry(nil, "Do"), Entry(nil, "what Do returns"),
		Entry(nil, "what Do returns, which does nothing"), Entry(nil, "Ran"), Entry(nil, "Answered"))
})
