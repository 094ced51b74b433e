package carve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/partition"
)

// tunes is the argument that makes this program one that tunes tunedText in a folder.
const tunes = "-tune-in="

func TestMain(m *testing.M) {
	for _, a := range os.Args[1:] {
		if dir, ok := strings.CutPrefix(a, tunes); ok {
			fmt.Println("tuning")
			ctx, model := context.Background(), textModel(tunedText)
			if _, err := carve.Tune(ctx, model, &carve.TuneOptions{Options: tuned(dir)}); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// tunedText is a model with some distinct operators, of which the plain kernels run all, slowly.
const tunedText = `graph {
  opset 17
  input %x: f32[1,16,12,12]
  input %w: f32[16,16,3,3]
  input %v: f32[24,16,1,1]
  %a = Conv(%x, %w; pads=[1,1,1,1]) "a"
  %b = Relu(%a) "b"
  %c = Add(%b, %x) "c"
  %d = Conv(%c, %v) "d"
  %e = Sigmoid(%d) "e"
  %f = Transpose(%e; perm=[0,2,3,1]) "f"
  %g = Softmax(%f) "g"
  output %g
}`

// tuned are options in which the slow backend comes first.
func tuned(dir string) *carve.Options {
	return &carve.Options{Backends: []backend.Config{{Name: "reference"}, {Name: "cpu"}}, Placement: carve.Measured, Cache: dir, Threads: 1}
}

// warnings are the lines of a logger.
type warnings struct{ bytes.Buffer }

func (w *warnings) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(&w.Buffer, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// placement tells where nodes are, in which formats, and what it was chosen by.
func placement(ctx context.Context, m *carve.Model, o *carve.Options) string {
	GinkgoHelper()
	p := compile(ctx, m, o)
	defer p.Close()
	r, err := p.Report(ctx, map[string][]int{})
	Expect(err).NotTo(HaveOccurred())
	var s strings.Builder
	for _, g := range r.Groups {
		fmt.Fprintln(&s, g.Backend, g.Nodes, g.Ops)
	}
	for _, c := range r.Conversions {
		fmt.Fprintln(&s, c.Value, c.From, c.To)
	}
	fmt.Fprintf(&s, "%+v %+v", r.Placement, r.Tuned)
	return s.String()
}

var _ = Describe("Tune", func() {
	It("finds what is fastest, once for all processes and compilations", func(ctx SpecContext) {
		dir := GinkgoT().TempDir()
		var shown []carve.Progress
		o := tuned(dir)
		o.Observer = func(p carve.Progress) {
			if p.Pass == carve.TunePass {
				shown = append(shown, p)
			}
		}
		t, err := carve.Tune(ctx, textModel(tunedText), &carve.TuneOptions{Options: o})
		Expect(err).NotTo(HaveOccurred())
		Expect(t.Known).To(BeFalse())
		Expect(t.Measured).To(BeNumerically(">=", 7))
		Expect(t.Left).To(BeZero())
		Expect(t.Choice).NotTo(Equal("priority"), "the plain kernels come first there: %+v", t.Runs)
		Expect(t.Runs[0].Choice).To(Equal(t.Choice))
		Expect(slices.IsSortedFunc(t.Runs, func(a, b carve.TunedRun) int { return int(a.Nanoseconds - b.Nanoseconds) })).To(BeTrue())
		Expect(shown[0]).To(And(HaveField("Done", 0), HaveField("Total", t.Measured), HaveField("Node", Not(BeEmpty()))))
		Expect(shown[len(shown)-1]).To(And(HaveField("Done", t.Measured), HaveField("Node", "")))

		again, err := carve.Tune(ctx, textModel(tunedText), &carve.TuneOptions{Options: tuned(dir)})
		Expect(err).NotTo(HaveOccurred())
		Expect(again.Known).To(BeTrue())
		Expect(again.TunedReport).To(Equal(t.TunedReport))
		Expect([]int{again.Measured, again.Cached, again.Left}).To(HaveEach(0), "nothing was to be measured")

		p := compile(ctx, textModel(tunedText), tuned(dir))
		defer p.Close()
		var picture bytes.Buffer
		drawn, err := p.Picture(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(drawn.WriteJSON(&picture)).To(Succeed())
		var seen struct {
			Nodes []struct {
				Name       string
				Candidates []struct {
					Backend     string
					Chosen      bool
					Nanoseconds float64
					Measured    float64 `json:"measured_nanoseconds"`
				}
			}
		}
		Expect(json.Unmarshal(picture.Bytes(), &seen)).To(Succeed())
		count := 0
		for _, n := range seen.Nodes {
			for _, c := range n.Candidates {
				if c.Backend == "cpu" && c.Nanoseconds > 0 {
					Expect(c.Measured).To(BeNumerically(">", 0), "%s: %+v", n.Name, c)
					count++
				}
			}
		}
		Expect(count).To(BeNumerically(">=", 5))

		first := placement(ctx, textModel(tunedText), tuned(dir))
		Expect(first).To(ContainSubstring("cpu [a"))
		Expect(first).To(ContainSubstring("Choice:" + t.Choice))
		Expect(placement(ctx, textModel(tunedText), tuned(dir))).To(Equal(first))
		Expect(placement(ctx, textModel(strings.NewReplacer("%x", "%other", `"a"`, `"a"`).Replace(tunedText)), tuned(dir))).To(
			Equal(strings.ReplaceAll(first, "x host", "other host")), "names do not matter")
	})

	It("says where a model was not tuned, and uses what was measured of others", func(ctx SpecContext) {
		dir := GinkgoT().TempDir()
		w := &warnings{}
		o := tuned(dir)
		o.Logger = w.logger()
		Expect(placement(ctx, textModel(tunedText), o)).To(ContainSubstring("Choice: "))
		Expect(w.String()).To(ContainSubstring("not tuned"))
		_, err := carve.Tune(ctx, textModel(tunedText), &carve.TuneOptions{Options: tuned(dir)})
		Expect(err).NotTo(HaveOccurred())
		other := strings.Replace(tunedText, `  %g = Softmax(%f) "g"`, `  %y = Softmax(%f) "y"
  %g = Neg(%y) "g"`, 1)
		t, err := carve.Tune(ctx, textModel(other), &carve.TuneOptions{Options: tuned(dir)})
		Expect(err).NotTo(HaveOccurred())
		Expect(t.Cached).To(BeNumerically(">", 2*t.Measured), "%+v", t)
		Expect(t.Measured).To(BeNumerically(">", 0))
	})

	It("holds for the same options only", func(ctx SpecContext) {
		dir := GinkgoT().TempDir()
		_, err := carve.Tune(ctx, textModel(tunedText), &carve.TuneOptions{Options: tuned(dir)})
		Expect(err).NotTo(HaveOccurred())
		for name, edit := range map[string]func(o *carve.Options){
			"threads": func(o *carve.Options) { o.Threads = 2 }, "order": func(o *carve.Options) { slices.Reverse(o.Backends) },
			"isolated": func(o *carve.Options) { o.Isolated = true }, "pins": func(o *carve.Options) { o.Pins = append(o.Pins, partition.Pin{Node: "a", Backend: "cpu"}) },
			"option": func(o *carve.Options) { o.Backends[1].Options = map[string]string{"isa": "portable"} },
		} {
			o := tuned(dir)
			edit(o)
			Expect(placement(ctx, textModel(tunedText), o)).To(ContainSubstring("Choice: "), name)
		}
	})

	It("measures open symbols at the shapes that it is told", func(ctx SpecContext) {
		dir := GinkgoT().TempDir()
		text := strings.Replace(tunedText, "f32[1,16,12,12]", "f32[N,16,12,12]", 1)
		_, err := carve.Tune(ctx, textModel(text), &carve.TuneOptions{Options: tuned(dir)})
		var input *carve.InputError
		Expect(err).To(BeAssignableToTypeOf(input))
		Expect(err).To(MatchError(carve.ErrInput))
		for _, shape := range [][]int{{2, 16, 12}, {2, 3, 12, 12}} {
			_, err = carve.Tune(ctx, textModel(text), &carve.TuneOptions{Options: tuned(dir), Shapes: map[string][]int{"x": shape}})
			Expect(err).To(MatchError(carve.ErrInput))
		}
		at := &carve.TuneOptions{Options: tuned(dir), Shapes: map[string][]int{"x": {2, 16, 12, 12}}}
		t, err := carve.Tune(ctx, textModel(text), at)
		Expect(err).NotTo(HaveOccurred())
		Expect(t.Dims).To(Equal(map[string]int64{"N": 2}))
		Expect(t.Measured).To(BeNumerically(">=", 7))
		p := compile(ctx, textModel(text), tuned(dir))
		defer p.Close()
		r, err := p.Report(ctx, map[string][]int{"x": {3, 16, 12, 12}})
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Tuned.Choice).To(Equal(t.Choice))
		Expect(r.Tuned.Dims).To(Equal(map[string]int64{"N": 2}), "the plan says what it was measured at")
		Expect(r.Tuned.Ranges).To(HaveKeyWithValue("N", HaveField("String()", "1 and more")))
		at.Shapes["x"][0], at.Options.Bounds = 4, map[string]int{"N": 8}
		t, err = carve.Tune(ctx, textModel(text), at)
		Expect(err).NotTo(HaveOccurred())
		Expect(t.Known).To(BeFalse(), "other shapes are measured anew")
		Expect(t.Dims).To(Equal(map[string]int64{"N": 4}))
		Expect(t.Ranges).To(Equal(map[string]carve.TunedRange{"N": {Least: 1, Most: 8}}))

		o := tuned(dir)
		o.Bounds = map[string]int{"N": 8}
		first := save(ctx, textModel(text), o)
		Expect(first).To(ContainSubstring(`fact "measured" "at N = 4, for 1 to 8"`))
		o.Plan = parsed(first)
		Expect(save(ctx, textModel(text), o)).To(Equal(first), "a plan that is applied brings that with it")
	})

	It("measures open symbols at several values, and says for which each is taken to hold", func(ctx SpecContext) {
		dir := GinkgoT().TempDir()
		text := strings.Replace(tunedText, "f32[1,16,12,12]", "f32[N,16,12,12]", 1)
		bounded := func() *carve.Options {
			o := tuned(dir)
			o.Bounds = map[string]int{"N": 20}
			return o
		}
		at := func(dims ...int) *carve.TuneOptions {
			return &carve.TuneOptions{Options: bounded(), Dims: map[string][]int{"N": dims}}
		}
		for name, o := range map[string]*carve.TuneOptions{
			"beyond its bound": at(1, 21), "negative": at(-1, 1), "none": at(), "another symbol": {Options: bounded(), Dims: map[string][]int{"M": {1}}},
			"twice": {Options: bounded(), Dims: map[string][]int{"N": {1}}, Shapes: map[string][]int{"x": {2, 16, 12, 12}}},
			"too many": {Options: tuned(dir), Dims: map[string][]int{"N": slices.Collect(func(yield func(int) bool) {
				for n := 1; n < 70 && yield(n); n++ {
				}
			})}},
		} {
			_, err := carve.Tune(ctx, textModel(text), o)
			var input *carve.InputError
			Expect(err).To(BeAssignableToTypeOf(input), name)
		}
		t, err := carve.Tune(ctx, textModel(text), at(8, 1, 8))
		Expect(err).NotTo(HaveOccurred())
		Expect(t.Measured).To(BeNumerically(">=", 14))
		Expect(t.Dims).To(BeNil())
		Expect(t.Points).To(HaveExactElements(
			And(HaveField("Dims", map[string]int64{"N": 1}), HaveField("Ranges", map[string]carve.TunedRange{"N": {Least: 1, Most: 2}})),
			And(HaveField("Dims", map[string]int64{"N": 8}), HaveField("Ranges", map[string]carve.TunedRange{"N": {Least: 3, Most: 20}}))))
		Expect(t.Runs[0].Choice).To(Equal(t.Choice))
		for _, p := range t.Points {
			Expect(p.Runs).To(HaveEach(HaveField("Nanoseconds", BeNumerically(">", 0))))
			Expect(p.Runs).NotTo(BeEmpty())
		}
		again, err := carve.Tune(ctx, textModel(text), at(1, 8))
		Expect(err).NotTo(HaveOccurred())
		Expect(again.Known).To(BeTrue())
		Expect(again.TunedReport).To(Equal(t.TunedReport))
		more, err := carve.Tune(ctx, textModel(text), at(1, 2, 8))
		Expect(err).NotTo(HaveOccurred())
		Expect(more.Known).To(BeFalse())
		Expect(more.Cached).To(BeNumerically(">=", t.Measured), "measurements of 1 and 8 are kept")

		first := save(ctx, textModel(text), bounded())
		for _, held := range []string{"at N = 1, for 1 to 1", "at N = 2, for 2 to 4", "at N = 8, for 5 to 20"} {
			Expect(first).To(ContainSubstring(`fact "measured" "` + held + `"`))
		}
		o := bounded()
		o.Plan = parsed(first)
		Expect(save(ctx, textModel(text), o)).To(Equal(first))
		p := compile(ctx, textModel(text), bounded())
		defer p.Close()
		r, err := p.Report(ctx, map[string][]int{"x": {3, 16, 12, 12}})
		Expect(err).NotTo(HaveOccurred())
		Expect(*r.Tuned).To(Equal(more.TunedReport))
		Expect(r.Tuned.Held()).To(HaveLen(3))
	})

	It("keeps what it has measured when it is canceled", func(ctx SpecContext) {
		dir := GinkgoT().TempDir()
		over, cancel := context.WithCancel(ctx)
		o := tuned(dir)
		o.Observer = func(p carve.Progress) {
			if p.Pass == carve.TunePass && p.Done > 0 {
				cancel()
			}
		}
		_, err := carve.Tune(over, textModel(tunedText), &carve.TuneOptions{Options: o})
		Expect(err).To(MatchError(context.Canceled))
		t, err := carve.Tune(ctx, textModel(tunedText), &carve.TuneOptions{Options: tuned(dir)})
		Expect(err).NotTo(HaveOccurred())
		Expect(t.Known).To(BeFalse())
		Expect(t.Cached).To(BeNumerically(">", 0))
	})

	It("ignores files that are not whole, with a warning", func(ctx SpecContext) {
		dir := GinkgoT().TempDir()
		t, err := carve.Tune(ctx, textModel(tunedText), &carve.TuneOptions{Options: tuned(dir)})
		Expect(err).NotTo(HaveOccurred())
		files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
		Expect(err).NotTo(HaveOccurred())
		Expect(len(files)).To(BeNumerically(">", t.Measured))
		for _, f := range files {
			Expect(os.WriteFile(f, []byte("carve measurement 1\nnot whole"), 0o644)).To(Succeed())
		}
		w := &warnings{}
		o := tuned(dir)
		o.Logger = w.logger()
		Expect(placement(ctx, textModel(tunedText), o)).To(ContainSubstring("Choice: "))
		Expect(w.String()).To(ContainSubstring("a file in the cache is ignored"))
		again, err := carve.Tune(ctx, textModel(tunedText), &carve.TuneOptions{Options: tuned(dir)})
		Expect(err).NotTo(HaveOccurred())
		Expect(again.Measured).To(Equal(t.Measured))
		Expect(placement(ctx, textModel(tunedText), tuned(dir))).To(ContainSubstring("Choice:" + again.Choice))
	})

	It("takes inputs that it is given, and says which ones have no data", func(ctx SpecContext) {
		text := "graph {\n  opset 17\n  input %x: i64[2]\n  input %y: f32[3]\n  %a = Gather(%y, %x) \"a\"\n  output %a\n}"
		x := tensor.From([]int64{7, 0}, 2)
		o := &carve.TuneOptions{Options: tuned(GinkgoT().TempDir()), Inputs: map[string]tensor.Value{"x": x}}
		_, err := carve.Tune(ctx, textModel(text), o)
		Expect(err).To(MatchError(carve.ErrRun), "7 is no index")
		o.Inputs["x"] = tensor.From([]int64{2, 0}, 2)
		_, err = carve.Tune(ctx, textModel(text), o)
		Expect(err).NotTo(HaveOccurred())
		text = "graph {\n  opset 17\n  input %x: str[2]\n  %a = Identity(%x) \"a\"\n  output %a\n}"
		_, err = carve.Tune(ctx, textModel(text), &carve.TuneOptions{Options: tuned(GinkgoT().TempDir())})
		Expect(err).To(MatchError(ContainSubstring("no data")))
		Expect(err).To(MatchError(carve.ErrInput))
	})

	It("turns down what Compile does, and folders that are none", func(ctx SpecContext) {
		_, err := carve.Tune(ctx, nil, nil)
		Expect(err).To(MatchError(carve.ErrInput))
		file := filepath.Join(GinkgoT().TempDir(), "file")
		Expect(os.WriteFile(file, nil, 0o644)).To(Succeed())
		_, err = carve.Tune(ctx, textModel(tunedText), &carve.TuneOptions{Options: tuned(file)})
		Expect(err).To(HaveOccurred())
		_, err = carve.Compile(ctx, textModel(tunedText), tuned(file))
		Expect(err).To(HaveOccurred())
		m := textModel(tunedText)
		Expect(m.Close()).To(Succeed())
		_, err = carve.Tune(ctx, m, nil)
		Expect(err).To(MatchError(os.ErrClosed))
	})

	// killed tunes a model here and in other processes, which are killed at random moments.
	killed := func(ctx context.Context, kills int) {
		GinkgoHelper()
		self, err := os.Executable()
		Expect(err).NotTo(HaveOccurred())
		for k := range kills {
			dir := GinkgoT().TempDir()
			cmd := exec.CommandContext(ctx, self, tunes+dir)
			out, err := cmd.StdoutPipe()
			Expect(err).NotTo(HaveOccurred())
			Expect(cmd.Start()).To(Succeed())
			_, err = out.Read(make([]byte, 1)) // it is on its way
			Expect(err).NotTo(HaveOccurred())
			random := time.Duration(k*k*7919%(100*10007)) * time.Microsecond
			timer := time.AfterFunc(random, func() { _ = cmd.Process.Kill() })
			w := &warnings{}
			o := tuned(dir)
			o.Logger = w.logger()
			t, err := carve.Tune(ctx, textModel(tunedText), &carve.TuneOptions{Options: o})
			Expect(err).NotTo(HaveOccurred())
			survivor := placement(ctx, textModel(tunedText), o)
			Expect(survivor).To(ContainSubstring("Choice:" + t.Choice))
			timer.Stop()
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
			Expect(placement(ctx, textModel(tunedText), o)).To(Equal(survivor))
			Expect(w.String()).To(BeEmpty(), "no file was torn")
		}
	}

	It("gives a process the plan of the finished cache, while another is killed", func(ctx SpecContext) { killed(ctx, 4) })

	It("gives a process the plan of the finished cache, while another is killed: 100 times", Label("slow"), func(ctx SpecContext) { killed(ctx, 100) })
})
