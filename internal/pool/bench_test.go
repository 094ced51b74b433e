package pool_test

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"

	"github.com/carve-dev/carve/internal/pool"
)

// job is a loop with a fixed amount of arithmetic per item (about 1.3 µs).
type job struct{ out [1024]float64 }

func (j *job) items(lo, hi int) {
	for i := lo; i < hi; i++ {
		x := float64(i)
		for range 256 {
			x = math.Sqrt(x*1.0001 + 1)
		}
		j.out[i] = x
	}
}

// BenchmarkFor compares a loop on the pool with the same loop serial and on goroutines with a WaitGroup.
func BenchmarkFor(b *testing.B) {
	threads := runtime.GOMAXPROCS(0)
	j := new(job)
	for _, items := range []int{8, 16, 64, 512} {
		b.Run(fmt.Sprintf("how=serial/items=%d", items), func(b *testing.B) {
			for b.Loop() {
				j.items(0, items)
			}
		})
		b.Run(fmt.Sprintf("how=pool/items=%d", items), func(b *testing.B) {
			pool.Acquire()
			defer pool.Release()
			r := pool.BeginRun(threads)
			defer r.End()
			b.ReportAllocs()
			for b.Loop() {
				r.For(items, 1, func(arg any, _, lo, hi int) { arg.(*job).items(lo, hi) }, j)
			}
		})
		b.Run(fmt.Sprintf("how=goroutines/items=%d", items), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var group sync.WaitGroup
				for t := range threads {
					group.Add(1)
					go func() {
						defer group.Done()
						j.items(items*t/threads, items*(t+1)/threads)
					}()
				}
				group.Wait()
			}
		})
	}
}

// BenchmarkForkJoin is the cost of a loop that does nothing.
func BenchmarkForkJoin(b *testing.B) {
	pool.Acquire()
	defer pool.Release()
	r := pool.BeginRun(0)
	defer r.End()
	b.ReportAllocs()
	for b.Loop() {
		r.For(8, 1, func(any, int, int, int) {}, nil)
	}
}
