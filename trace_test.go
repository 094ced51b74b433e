package carve_test

import (
	"bytes"
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend/backendtest/fake"
	"github.com/carve-dev/carve/graph/tensor"
)

// traceEvent is an event of a Chrome trace.
type traceEvent struct {
	Name, Ph string
	PID, TID int
	TS, Dur  float64
	Args     struct {
		Name  string
		Group *int
	}
}

var _ = It("a Chrome trace names the host and every device, and the streams of each", func(ctx SpecContext) {
	b := fake.New(fake.Options{Devices: 1})
	o := withBackends(part{b, []string{"Relu", "Sigmoid"}})
	o.Streams = 2
	p := mustCompile(ctx, carve.FromGraph(parseGraph(`graph {
  opset 17
  input %x: f32[8,8]
  %a = Relu(%x) "a"
  %b = Sigmoid(%x) "b"
  %c = Tanh(%x) "c"
  %y = Sum(%a, %b, %c) "y"
  output %y
}`)), o)
	defer p.Close()
	_, profile, err := p.RunProfiled(ctx, map[string]tensor.Value{"x": wave(8, 8)})
	Expect(err).NotTo(HaveOccurred())
	r, err := p.Report(ctx, nil)
	Expect(err).NotTo(HaveOccurred())
	var buf bytes.Buffer
	Expect(profile.WriteChromeTrace(&buf)).To(Succeed())
	var trace struct{ TraceEvents []traceEvent }
	Expect(json.Unmarshal(buf.Bytes(), &trace)).To(Succeed())

	process, thread := map[int]string{}, map[[2]int]string{}
	on := map[string]string{}
	for _, e := range trace.TraceEvents {
		switch {
		case e.Name == "process_name":
			process[e.PID] = e.Args.Name
		case e.Name == "thread_name":
			thread[[2]int{e.PID, e.TID}] = e.Args.Name
		default:
			Expect(e.Ph).To(Equal("X"))
			Expect(thread).To(HaveKey([2]int{e.PID, e.TID}), "%v is on a track without a name", e)
			if e.Args.Group != nil {
				g := r.Groups[*e.Args.Group]
				Expect(g.ID).To(Equal(*e.Args.Group))
				on[strings.Join(g.Nodes, " ")] = process[e.PID]
			}
		}
	}
	device := b.Devices()[0].ID().String()
	Expect(process).To(Equal(map[int]string{1: "host", 2: device}))
	Expect(thread).To(ContainElements("host", device+" stream 0"))
	Expect(on).To(HaveKeyWithValue("c y", "host"))
	Expect(on["a"] + on["b"] + on["a b"]).To(HavePrefix(device))
})
