package repository_test

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing/fstest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/carve-dev/carve/examples/server/internal/modeltest"
	"github.com/carve-dev/carve/examples/server/repository"
	"github.com/carve-dev/carve/graph/tensor"
)

// behind counts the process's threads whose slice of processor time is not the usual one.
func behind(usual uint64) (n int) {
	threads, err := os.ReadDir("/proc/self/task")
	Expect(err).NotTo(HaveOccurred())
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		Expect(err).NotTo(HaveOccurred())
		if a, err := unix.SchedGetAttr(id, 0); err == nil && a.Policy == unix.SCHED_NORMAL && a.Runtime != usual {
			n++
		}
	}
	return n
}

const products = `graph "m" {
  opset 17
  input %x: f32[N,512,512]
  %a: f32[N,512,512] = MatMul(%x, %x)
  %y: f32[N,512,512] = MatMul(%a, %x)
  output %y
}`

var _ = Describe("runs that give way", func() {
	usual := func() uint64 {
		a, err := unix.SchedGetAttr(0, 0)
		if err != nil || a.Policy != unix.SCHED_NORMAL || a.Runtime == 0 {
			Skip("threads have no slices of their own here: Linux 6.12 or newer is needed")
		}
		return a.Runtime
	}

	DescribeTable("do so while requests are turned down, and their threads are as before behind them", func(ctx SpecContext, text, config string, long bool) {
		b, err := modeltest.Encode(text)
		Expect(err).NotTo(HaveOccurred())
		files := fstest.MapFS{"m/1/model.onnx": {Data: b}, "m/config.pbtxt": {Data: []byte(config)}}
		slice := usual()
		r, err := repository.Open(ctx, files, repository.Options{GiveWay: true, Runs: 2})
		Expect(err).NotTo(HaveOccurred())
		defer r.Close(context.Background())
		v, err := r.Acquire(ctx, "m", "")
		Expect(err).NotTo(HaveOccurred())
		defer v.Release()
		x, err := tensor.New(tensor.Float32, 1, 512, 512)
		Expect(err).NotTo(HaveOccurred())
		run := func(during func()) (seen int) {
			done := make(chan error)
			go func() {
				var err error
				for begin := time.Now(); err == nil && time.Since(begin) < 300*time.Millisecond; {
					_, _, err = v.Run(ctx, 0, map[string]tensor.Value{"x": x})
				}
				done <- err
			}()
			for {
				select {
				case err := <-done:
					Expect(err).NotTo(HaveOccurred())
					Expect(behind(slice)).To(BeZero())
					return seen
				default:
					during()
					seen = max(seen, behind(slice))
				}
			}
		}
		Expect(run(func() {})).To(BeZero())
		if seen := run(r.TurnedDown); long {
			Expect(seen).To(Equal(1))
		} else {
			Expect(seen).To(BeZero())
		}
		time.Sleep(1100 * time.Millisecond)
		Expect(run(func() {})).To(BeZero())
	},
		Entry("alone", products, "", true),
		Entry("in a batcher", products, "max_batch_size: 2\ndynamic_batching {}\n", true),
		Entry("but short ones do not", "graph \"m\" {\n  opset 17\n  input %x: f32[N,512,512]\n  %y: i64[3] = Shape(%x)\n  output %y\n}", "", false),
	)

	It("leave their threads as before though another run was short meanwhile", func(ctx SpecContext) {
		b, err := modeltest.Encode(strings.ReplaceAll(products, "512", "K"))
		Expect(err).NotTo(HaveOccurred())
		slice := usual()
		r, err := repository.Open(ctx, fstest.MapFS{"m/1/model.onnx": {Data: b}}, repository.Options{GiveWay: true, Runs: 2})
		Expect(err).NotTo(HaveOccurred())
		defer r.Close(context.Background())
		v, err := r.Acquire(ctx, "m", "")
		Expect(err).NotTo(HaveOccurred())
		defer v.Release()
		run := func(k int) {
			defer GinkgoRecover()
			x, err := tensor.New(tensor.Float32, 1, k, k)
			Expect(err).NotTo(HaveOccurred())
			_, _, err = v.Run(ctx, 0, map[string]tensor.Value{"x": x})
			Expect(err).NotTo(HaveOccurred())
		}
		run(4)
		left := make(chan int)
		go func() { // which stays on its thread
			defer close(left)
			for range 20 {
				run(768)
			}
			var other sync.WaitGroup
			other.Go(func() {
				for behind(slice) == 0 && ctx.Err() == nil {
					r.TurnedDown()
				}
				run(4)
			})
			r.TurnedDown()
			run(768)
			left <- behind(slice)
			other.Wait()
		}()
		Expect(<-left).To(BeZero())
		Eventually(left).Should(BeClosed())
	}, SpecTimeout(time.Minute))
})
