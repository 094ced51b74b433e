package repository_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/examples/server/internal/modeltest"
	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/repository"
	"github.com/carve-dev/carve/graph/tensor"
)

// behind counts the process's threads that have a smaller share of the processors than it has itself.
func behind() (n int) {
	own, err := unix.SchedGetAttr(os.Getpid(), 0)
	Expect(err).NotTo(HaveOccurred())
	threads, err := os.ReadDir("/proc/self/task")
	Expect(err).NotTo(HaveOccurred())
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		Expect(err).NotTo(HaveOccurred())
		if a, err := unix.SchedGetAttr(id, 0); err == nil && a.Nice > own.Nice {
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

// firstThread is in the environment of a process that shows whether the first thread is taken: that of specs waits for something.
const firstThread = "CARVE_TEST_FIRST_THREAD"

func TestMain(m *testing.M) {
	if os.Getenv(firstThread) == "" {
		os.Exit(m.Run())
	}
	for range 200 {
		on := make(chan int)
		repository.OnThread(func() { on <- unix.Gettid() })
		if <-on == os.Getpid() {
			os.Exit(1)
		}
	}
}

var _ = It("threads of their own are never the process's first one, which does not end", func(ctx SpecContext) {
	self, err := os.Executable()
	Expect(err).NotTo(HaveOccurred())
	alone := exec.CommandContext(ctx, self)
	alone.Env = append(os.Environ(), firstThread+"=1")
	Expect(alone.Run()).To(Succeed())
})

var _ = Describe("runs", func() {
	BeforeEach(func() {
		if a, err := unix.SchedGetAttr(0, 0); err != nil || a.Policy != unix.SCHED_NORMAL || a.Nice > 10 {
			Skip("the process's threads have no share that could be made smaller")
		}
	})

	DescribeTable("have threads of their own where they are long and keep all processors busy while requests are turned down, up to the repository's end", func(ctx SpecContext, text, config string, callers, queue int, apart bool) {
		Eventually(behind).Should(BeZero()) // threads of other specs may still end
		b, err := modeltest.Encode(text)
		Expect(err).NotTo(HaveOccurred())
		files := fstest.MapFS{"m/1/model.onnx": {Data: b}, "m/config.pbtxt": {Data: []byte(config)}}
		r, err := repository.Open(ctx, files, repository.Options{Runs: 2, Queue: queue})
		Expect(err).NotTo(HaveOccurred())
		v, err := r.Acquire(ctx, "m", "")
		Expect(err).NotTo(HaveOccurred())
		x, err := tensor.New(tensor.Float32, 1, 512, 512)
		Expect(err).NotTo(HaveOccurred())
		var group sync.WaitGroup
		var over atomic.Bool
		for range callers {
			group.Go(func() {
				defer GinkgoRecover()
				for !over.Load() {
					if _, _, err := v.Run(ctx, 0, map[string]tensor.Value{"x": x}); errors.Is(err, carve.ErrOverloaded) || err != nil && oip.AsError(err).Code == oip.Overloaded {
						time.Sleep(time.Millisecond)
					} else {
						Expect(err).NotTo(HaveOccurred())
					}
				}
			})
		}
		if apart {
			Eventually(behind).WithTimeout(time.Minute).Should(BeNumerically(">=", 1))
			Expect(behind()).To(BeNumerically("<=", 2), "as many as there are runs at a time")
		} else {
			Consistently(behind, 300*time.Millisecond).Should(BeZero())
		}
		over.Store(true)
		group.Wait()
		v.Release()
		Expect(r.Close(context.Background())).To(Succeed())
		Eventually(behind).Should(BeZero())
	},
		Entry("alone", products, "", 4, 1, true),
		Entry("in a batcher", products, "max_batch_size: 2\ndynamic_batching {}\n", 6, 1, true),
		Entry("but not where all may wait", products, "", 4, 8, false),
		Entry("but not of one caller", products, "", 1, 1, false),
		Entry("but not short ones", "graph \"m\" {\n  opset 17\n  input %x: f32[N,512,512]\n  %y: i64[3] = Shape(%x)\n  output %y\n}", "", 4, 1, false),
	)
})
