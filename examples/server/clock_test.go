package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/examples/server/internal/modeltest"
	"github.com/carve-dev/carve/graph/tensor"
)

// jumping builds the command with a time.Now whose wall clock jumps every 30 ms: to a day later, a year earlier, and back. The
// monotonic clock goes on.
func jumping(ctx SpecContext) string {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	Expect(err).NotTo(HaveOccurred())
	from := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(from)
	Expect(err).NotTo(HaveOccurred())
	const read = "sec, nsec, mono := runtimeNow()\n"
	Expect(strings.Count(string(text), read)).To(Equal(1), "time.Now is another one in this version of Go")
	to, overlay := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json")
	Expect(os.WriteFile(to, []byte(strings.Replace(string(text), read, read+"\tsec += [...]int64{0, 86400, 0, -31536000}[mono/30e6&3]\n", 1)), 0o600)).To(Succeed())
	b, err := json.Marshal(map[string]any{"Replace": map[string]string{from: to}})
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(overlay, b, 0o600)).To(Succeed())
	name := filepath.Join(dir, "server")
	out, err := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-o", name, ".").CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
	return name
}

var _ = Describe("a clock that jumps", Label("slow"), func() {
	It("ends no sequence, no request and no connection early, and holds up no poll", func(ctx SpecContext) {
		dir := models()
		Expect(modeltest.Configure(dir, "echo_int64", "max_batch_size: 8\ndynamic_batching { max_queue_delay_microseconds: 2000 default_queue_policy { default_timeout_microseconds: 30000000 } }")).To(Succeed())
		p := spawn(exec.Command(jumping(ctx)), "-models", dir, "-model-control", "poll", "-poll", "100ms", "-memory-limit", "100000000")
		begin := time.Now()
		var group sync.WaitGroup
		for form, c := range p.askers() {
			for k := range uint64(3) {
				group.Go(func() {
					defer GinkgoRecover()
					sum := float32(0)
					for i := range 60 { // 3 seconds, 100 jumps
						r := request("total", "x", tensor.From([]float32{float32(k + 1)}))
						r.Sequence.Text, r.Start, r.Timeout = form+string(rune('a'+k)), i == 0, 20*time.Second
						have, err := c.Infer(ctx, r)
						Expect(err).NotTo(HaveOccurred(), form)
						sum += float32(k + 1)
						Expect(tensor.Elements[float32](have.Outputs[0].Tensor)).To(Equal([]float32{sum}), form)
						x := tensor.From([]int64{int64(k), int64(i), 1}, 1, 3)
						have, err = c.Infer(ctx, request("echo_int64", "x", x))
						Expect(err).NotTo(HaveOccurred(), form)
						Expect(have.Outputs[0].Tensor.Data).To(Equal(x.Data), form)
						time.Sleep(50 * time.Millisecond)
					}
				})
			}
		}
		Expect(modeltest.Write(dir, "late", 1, modeltest.Echo("f32"))).To(Succeed())
		c := p.askers()["HTTP"]
		Eventually(func() error { return echoes(ctx, c, "late", 1, 2, 3) }).Should(Succeed())
		group.Wait()
		Expect(time.Since(begin)).To(BeNumerically(">", 2*time.Second), "the clock has jumped meanwhile")
	})
})
