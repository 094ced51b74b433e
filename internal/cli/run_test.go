package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/pending"
)

var _ = Describe("run", func() {
	x := tensor.From([]float32{1, 2, 3, 4, 50, 6}, 2, 3)
	y := []float32{0, 0, 0, 46}

	It("prints shape, dtype and statistics of each output", func(ctx SpecContext) {
		r := succeeds(ctx, "run", save(ctx, affine()), "--input", "x="+writeNPY(x))
		Expect(r.stdout).To(Equal(
			"y       float32[2,2]  min 0  max 46  mean 11.5  std 19.9186\n" +
				"flat/y  float32[4]    min 0  max 46  mean 11.5  std 19.9186\n"))
		Expect(r.stderr).To(MatchRegexp(`\Arun took [^\n]+\n\z`))
	})

	It("writes outputs under safe names inside the folder", func(ctx SpecContext) {
		g := newGraph()
		x := g.AddInput("x", f32(2))
		var outs []*graph.Value
		for _, name := range []string{"../../up", "a b", "a_b", "a_b_2", "ä", "/etc/passwd"} {
			outs = append(outs, add(g, "Neg", "", name, []*graph.Value{x}))
		}
		g.SetOutputs(append(outs, outs[1])...)
		dir := filepath.Join(GinkgoT().TempDir(), "out", "put")
		succeeds(ctx, "run", save(ctx, g), "--output", dir)
		entries, err := os.ReadDir(dir)
		Expect(err).NotTo(HaveOccurred())
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		Expect(names).To(ConsistOf(".._.._up.npy", "a_b.npy", "a_b_2.npy", "a_b_2_2.npy", "_.npy", "_etc_passwd.npy", "a_b_3.npy"))
		t, err := tensor.ReadNPYFile(filepath.Join(dir, "a_b_3.npy"))
		Expect(err).NotTo(HaveOccurred())
		Expect(t.Float64At(0)).To(BeNumerically("~", -0.618, 1e-3))
	})

	It("removes what a writer left in the folder that was killed, as every command that writes files", func(ctx SpecContext) {
		dir, model := GinkgoT().TempDir(), save(ctx, affine())
		for name, args := range map[string][]string{
			"y.npy": {"run", model, "--output", dir}, "m.onnx": {"convert", model, filepath.Join(dir, "m.onnx")},
			"m.bundle": {"bundle", model, "-o", filepath.Join(dir, "m.bundle")}, "m.plan": {"plan", "save", model, "-o", filepath.Join(dir, "m.plan")},
		} {
			left, err := pending.Create(filepath.Join(dir, name))
			Expect(err).NotTo(HaveOccurred())
			Expect(left.Close()).To(Succeed())
			Expect(os.Chtimes(left.Name(), time.Time{}, time.Now().Add(-2*time.Hour))).To(Succeed())
			succeeds(ctx, args...)
			Expect(left.Name()).NotTo(BeAnExistingFile(), name)
			Expect(filepath.Join(dir, name)).To(BeARegularFile())
		}
	})

	It("replaces a link in the folder and does not write through it", func(ctx SpecContext) {
		dir, outside := GinkgoT().TempDir(), filepath.Join(GinkgoT().TempDir(), "precious")
		writeFile(outside, []byte("precious"))
		if err := os.Symlink(outside, filepath.Join(dir, "y.npy")); err != nil {
			Skip(err.Error())
		}
		succeeds(ctx, "run", save(ctx, affine()), "--output", dir)
		Expect(os.ReadFile(outside)).To(BeEquivalentTo("precious"))
		_, err := tensor.ReadNPYFile(filepath.Join(dir, "y.npy"))
		Expect(err).NotTo(HaveOccurred())
	})

	It("writes what npy cannot hold as protobuf, and reads it", func(ctx SpecContext) {
		g := newGraph()
		x := g.AddInput("x", typ(tensor.BFloat16, 3))
		y := add(g, "Identity", "", "y", []*graph.Value{x})
		f := add(g, "Cast", "", "f", []*graph.Value{x}, graph.IntAttr("to", int64(tensor.Float32)))
		g.SetOutputs(y, add(g, "SequenceConstruct", "", "s", []*graph.Value{f, f}))
		in := filepath.Join(GinkgoT().TempDir(), "x.pb")
		want, err := tensor.Convert(tensor.From([]float32{1, 2, -3}), tensor.BFloat16, nil)
		Expect(err).NotTo(HaveOccurred())
		writePB(in, "x", want)
		dir := GinkgoT().TempDir()
		r := succeeds(ctx, "run", save(ctx, g), "--input", "x="+in, "--output", dir)
		Expect(r.stdout).To(MatchRegexp(`(?m)^y +bfloat16\[3\] +min -3  max 2  mean 0`))
		Expect(r.stdout).To(MatchRegexp(`(?m)^s +sequence\[2\] +2 items`))
		for name, kind := range map[string]tensor.Kind{"y": tensor.KindTensor, "s": tensor.KindSequence} {
			b, err := os.ReadFile(filepath.Join(dir, name+".pb"))
			Expect(err).NotTo(HaveOccurred())
			got, v, err := tensor.ParseValue(b, kind, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(got).To(Equal(name))
			t, ok := v.(*tensor.Tensor)
			if s, seq := v.(*tensor.Sequence); seq {
				t, ok = s.Items[1].(*tensor.Tensor)
			}
			Expect(ok).To(BeTrue())
			Expect([]float64{t.Float64At(0), t.Float64At(1), t.Float64At(2)}).To(Equal([]float64{1, 2, -3}))
		}
	})

	It("prints maps and writes them in a form that it reads", func(ctx SpecContext) {
		rows := x
		g := newGraph()
		g.Opsets["ai.onnx.ml"] = 3
		x := g.AddInput("x", f32(2, 3))
		zip := g.AddNode(graph.NodeSpec{Op: graph.Op{Domain: "ai.onnx.ml", Name: "ZipMap"}, Inputs: []*graph.Value{x}, Outputs: []string{"p"},
			Attrs: []graph.Attr{graph.StringsAttr("classlabels_strings", "cat", "dog", "fox")}}).Outputs[0]
		g.SetOutputs(zip)
		dir := GinkgoT().TempDir()
		r := succeeds(ctx, "run", save(ctx, g), "--input", "x="+writeNPY(rows), "--output", dir)
		Expect(r.stdout).To(MatchRegexp(`(?m)^p +sequence\[2\] +2 items +\S+/p\.pb$`))
		Expect(r.stdout).To(MatchRegexp(`(?m)^  p\[1\] +map\[3\] +"cat": 4, "dog": 50, "fox": 6$`))
		b, err := os.ReadFile(filepath.Join(dir, "p.pb"))
		Expect(err).NotTo(HaveOccurred())
		_, p, err := tensor.ParseValue(b, tensor.KindSequence, nil)
		Expect(err).NotTo(HaveOccurred())
		first := filepath.Join(dir, "first.pb")
		writePB(first, "first", p.(*tensor.Sequence).Items[0])

		back := newGraph()
		back.Opsets["ai.onnx.ml"] = 3
		score := f32()
		m := back.AddInput("m", graph.Type{Kind: graph.KindMap, DType: tensor.String, Elem: &score})
		back.SetOutputs(back.AddNode(graph.NodeSpec{Op: graph.Op{Domain: "ai.onnx.ml", Name: "DictVectorizer"}, Inputs: []*graph.Value{m}, Outputs: []string{"v"},
			Attrs: []graph.Attr{graph.StringsAttr("string_vocabulary", "fox", "cow", "cat")}}).Outputs[0])
		succeeds(ctx, "run", save(ctx, back), "--input", "m="+first, "--output", dir)
		v, err := tensor.ReadNPYFile(filepath.Join(dir, "v.npy"))
		Expect(err).NotTo(HaveOccurred())
		Expect(tensor.Of[float32](v)).To(Equal([]float32{3, 0, 1}))
	})

	It("prints the first items of a long sequence", func(ctx SpecContext) {
		g := newGraph()
		x := g.AddInput("x", f32(12, 2))
		g.SetOutputs(add(g, "SplitToSequence", "", "s", []*graph.Value{x}))
		r := succeeds(ctx, "run", save(ctx, g))
		Expect(r.stdout).To(MatchRegexp(`(?m)^  s\[9\] +float32\[1,2\] +min .*\n  … +2 more items$`))
	})

	It("feeds the documented data where there is no input", func(ctx SpecContext) {
		g := newGraph()
		x := g.AddInput("x", f32("N", 2))
		i := g.AddInput("i", typ(tensor.Int64, "N"))
		h := g.AddInput("h", typ(tensor.Float16, 4096))
		g.SetOutputs(add(g, "Identity", "", "x1", []*graph.Value{x}), add(g, "Identity", "", "i1", []*graph.Value{i}),
			add(g, "Identity", "", "h1", []*graph.Value{h}))
		dir := GinkgoT().TempDir()
		path := save(ctx, g)
		r := succeeds(ctx, "run", path, "--output", dir, "--dim", "N=2")
		Expect(r.stderr).NotTo(ContainSubstring("dims"))
		t, err := tensor.ReadNPYFile(filepath.Join(dir, "x1.npy"))
		Expect(err).NotTo(HaveOccurred())
		v := make([]float32, 4)
		for k := range v {
			v[k] = float32(uint32(k+1)*2654435769>>8) / (1 << 24)
		}
		Expect(tensor.Of[float32](t)).To(Equal(v))
		t, err = tensor.ReadNPYFile(filepath.Join(dir, "i1.npy"))
		Expect(err).NotTo(HaveOccurred())
		Expect(tensor.Of[int64](t)).To(Equal([]int64{0, 0}))
		t, err = tensor.ReadNPYFile(filepath.Join(dir, "h1.npy"))
		Expect(err).NotTo(HaveOccurred())
		for k := range t.Len() {
			Expect(t.Float64At(k)).To(And(BeNumerically(">=", 0), BeNumerically("<", 1)))
		}
		Expect(succeeds(ctx, "run", "--help").stdout).To(ContainSubstring("2654435769"))

		r = succeeds(ctx, "run", path)
		Expect(r.stderr).To(HavePrefix("dims not set, taken as 1: N (--dim NAME=N)\n"))
		Expect(r.stdout).To(ContainSubstring("x1  float32[1,2]"))
		r = succeeds(ctx, "run", path, "--shape", "x=3,2")
		Expect(r.stdout).To(ContainSubstring("i1  int64[3]"))
	})

	It("compares every group with the reference backend", func(ctx SpecContext) {
		r := succeeds(ctx, "run", save(ctx, affine()), "--check", "--input", "x="+writeNPY(x))
		Expect(r.stdout).To(ContainSubstring("check: every group agrees with the reference backend\n"))
	})

	It("writes a Chrome trace and prints the slowest nodes", func(ctx SpecContext) {
		file := filepath.Join(GinkgoT().TempDir(), "trace.json")
		r := succeeds(ctx, "run", save(ctx, affine()), "--profile", file, "--backend", "reference")
		var trace struct {
			TraceEvents []struct {
				Name, Cat, Ph string
				Args          struct{ Name string }
			}
		}
		b, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		Expect(json.Unmarshal(b, &trace)).To(Succeed())
		var names []string
		var spans int
		for _, e := range trace.TraceEvents {
			if e.Ph == "M" {
				names = append(names, e.Name+" "+e.Args.Name)
				continue
			}
			spans++
			Expect(e.Cat).To(Equal("reference"))
		}
		Expect(spans).To(BeNumerically(">=", 3))
		Expect(names).To(Equal([]string{"process_name host", "thread_name host"}))
		Expect(r.stdout).To(MatchRegexp(`(?m)^time +share +GFLOP/s +backend +op +node$`))
		Expect(r.stdout).To(ContainSubstring("MatMul"))
	})

	It("gives the same result on every backend and number of threads", func(ctx SpecContext) {
		path, in := save(ctx, affine()), writeNPY(x)
		for _, args := range [][]string{{"--backend", "cpu"}, {"--backend", "reference"}, {"--backend", "reference,cpu"}, {"--threads", "1"}, {"--backend", "cpu", "--strict"}} {
			dir := GinkgoT().TempDir()
			succeeds(ctx, append([]string{"run", path, "--input", "x=" + in, "--output", dir}, args...)...)
			t, err := tensor.ReadNPYFile(filepath.Join(dir, "flat_y.npy"))
			Expect(err).NotTo(HaveOccurred())
			Expect(tensor.Of[float32](t)).To(Equal(y), strings.Join(args, " "))
		}
	})
})
