//go:build linux

package plugin_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend/plugin"
	"github.com/carve-dev/carve/graph/tensor"
)

// far are options that have what a library brings run out of process.
func far(source string, how int, flags ...string) *carve.Options {
	return &carve.Options{Plugins: []string{build(GinkgoTB(), source, flags...)}, Verify: true, Poison: true,
		PluginOptions: map[string]string{"out-of-process": "true", "timeout": patience(how), "compile-timeout": patience(how)}}
}

// faults are what the functions of a library do, by number, and what is said of it.
var faults = []struct {
	name  string
	how   int
	cause error
}{
	{"abort", aborts, plugin.ErrCrashed},
	{"a fault", segfaults, plugin.ErrCrashed},
	{"a loop without end", loops, plugin.ErrHung},
	{"exit", exits, plugin.ErrExited},
	{"a reply of ones", scribbles, plugin.ErrCorrupt},
	{"a reply of zeros", erases, plugin.ErrCorrupt},
}

var _ = Describe("what a plugin brings beside processors, out of process", func() {
	BeforeEach(func() { outOfProcess(GinkgoTB()) })

	x := func() *tensor.Tensor { return tensor.From([]float32{1, -2, 3, -4, 5, -6}, 2, 3) }
	crash := func(how int) *carve.Options { return far("testdata/crashown.c", how) }
	doubled := func(name string) string {
		return fmt.Sprintf("graph \"g\" {\n  opset 17\n  opset \"com.crash\" 1\n  input %%x: f32[N,3]\n  %%a = Relu(%%x)\n  %%b = com.crash::Double(%%a) %q\n"+
			"  %%y = Neg(%%b)\n  output %%y\n}", name)
	}
	// paired has an Abs, or an Exp, with a Neg behind it, which a property fuses and which has the name of the fault.
	paired := func(op, name string) string {
		return fmt.Sprintf("graph \"g\" {\n  opset 17\n  input %%x: f32[N,3]\n  %%h = Sigmoid(%%x) \"head\"\n  %%a = %s(%%h) \"first\"\n  %%n = Neg(%%a) %q\n  %%y = Sigmoid(%%n) \"last\"\n  output %%y\n}", op, name)
	}
	// failing compiles and runs a model, and returns what went wrong.
	failing := func(ctx SpecContext, text string, o *carve.Options) error {
		GinkgoHelper()
		m := model(text)
		defer m.Close()
		p, err := carve.Compile(ctx, m, o)
		if err == nil {
			_, err = p.Run(ctx, map[string]tensor.Value{"x": x()})
			Expect(p.Close()).To(Succeed())
		}
		return err
	}
	// tells looks for a restarted process in the report, and for a reason.
	tells := func(ctx SpecContext, p *carve.Program, reason ...string) {
		GinkgoHelper()
		Eventually(func(g Gomega) {
			r, err := p.Report(ctx, nil)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(r.Processes).To(HaveExactElements(SatisfyAll(HaveField("Library", ContainSubstring("crashown.c.so")),
				HaveField("Restarts", BeNumerically(">", 0)), HaveField("Last", Not(BeEmpty())))))
			var found []string
			for _, why := range r.Rejected {
				found = append(found, why.Reason)
			}
			for _, text := range reason {
				g.Expect(found).To(ContainElement(ContainSubstring(text)))
			}
		}).Should(Succeed())
	}

	It("does its work, and is reported", func(ctx SpecContext) {
		y, r := runModel(ctx, model(doubled("d")), crash(0), x())
		Expect(tensor.Of[float32](y)).To(Equal([]float32{-2, 0, -6, 0, -10, 0}))
		Expect(r.Groups).To(HaveExactElements(HaveField("Ops", []string{"Relu", "com.crash.Double", "Neg"})))
		Expect(r.Processes).To(HaveExactElements(SatisfyAll(HaveField("Library", ContainSubstring("crashown.c.so")), HaveField("Restarts", 0))))
		for _, op := range []string{"Abs", "Exp"} {
			want, _ := runModel(ctx, model(paired(op, "n")), nil, x())
			y, r = runModel(ctx, model(paired(op, "n")), crash(0), x())
			for i, v := range tensor.Of[float32](want) {
				Expect(tensor.Of[float32](y)[i]).To(BeNumerically("~", v, 1e-6))
			}
			Expect(r.Groups[0].Ops).To(ContainElement(map[string]string{"Abs": "abs-neg", "Exp": "exp-neg"}[op]))
		}
	})

	It("does what it does in the process", func(ctx SpecContext) {
		text := "graph \"p\" {\n  opset 17\n  opset \"com.own\" 1\n  input %x: f32[1,3]\n  const %c = f32[1,3]{1, -2, 3}\n" +
			"  %t = com.own::Twice(%x) \"twice\"\n  %k = com.own::Twice(%c) \"ahead\"\n  %s = Add(%t, %k)\n  %p = com.own::Positive(%s) \"positive\"\n" +
			"  %y = Neg(%p)\n  output %y\n}\n"
		in := tensor.From([]float32{1, -2, 3}, 1, 3)
		near := far("testdata/own.c", 0)
		near.PluginOptions = nil
		want, _ := runModel(ctx, model(text), near, in)
		y, r := runModel(ctx, model(text), far("testdata/own.c", 0), in)
		Expect(tensor.Of[float32](y)).To(Equal(tensor.Of[float32](want)))
		Expect(r.Folded).To(ContainElement(carve.FoldedReport{Node: "ahead", Kind: "constant"}))
	})

	for _, f := range faults {
		It("is an error of Compile where infer does "+f.name, func(ctx SpecContext) {
			err := failing(ctx, doubled(fmt.Sprintf("infer=%d", f.how)), crash(f.how))
			var failed *carve.PassError
			Expect(errors.As(err, &failed)).To(BeTrue(), "%v", err)
			Expect(failed.Pass).To(Equal("infer"))
			Expect(err).To(MatchError(plugin.ErrProcess))
			Expect(err).To(MatchError(f.cause))
			Expect(err).To(MatchError(And(ContainSubstring("crashown.c.so"), ContainSubstring("com.crash.Double"), ContainSubstring("infer:"))))
			Expect(failing(ctx, doubled("d"), crash(f.how))).To(Succeed())
		})
		for _, place := range []string{"workspace", "run"} {
			It(fmt.Sprintf("is an error of the run where an operator's %s does %s", place, f.name), func(ctx SpecContext) {
				m := model(doubled(fmt.Sprintf("%s=%d", place, f.how)))
				defer m.Close()
				p, err := carve.Compile(ctx, m, crash(f.how))
				Expect(err).NotTo(HaveOccurred())
				defer func() { Expect(p.Close()).To(Succeed()) }()
				_, err = p.Run(ctx, map[string]tensor.Value{"x": x()})
				Expect(err).To(MatchError(f.cause))
				Expect(err).To(MatchError(And(ContainSubstring("crashown.c.so"), ContainSubstring("com.crash.Double"), ContainSubstring(place+":"))))
				tells(ctx, p)
				Expect(failing(ctx, doubled("d"), crash(f.how))).To(Succeed())
			})
		}
		It("is an error of the run where an operator whose shapes depend on data does "+f.name, func(ctx SpecContext) {
			text := "graph \"p\" {\n  opset 17\n  opset \"com.crash\" 1\n  input %x: f32[N,3]\n  %t = com.crash::Above(%x) \"above\"\n  %y = Neg(%t)\n  output %y\n}\n"
			y, _ := runModel(ctx, model(text), crash(f.how), x())
			Expect(tensor.Of[float32](y)).To(Equal([]float32{-1, -3, -5}))
			err := failing(ctx, fmt.Sprintf("graph \"p\" {\n  opset 17\n  opset \"com.crash\" 1\n  input %%x: f32[N,3]\n  %%y = com.crash::Above(%%x) \"above=%d\"\n  output %%y\n}\n", f.how), crash(f.how))
			Expect(err).To(MatchError(plugin.ErrProcess))
			if f.how != erases { // then the parent may also wait in vain for what it asked while it was asked
				Expect(err).To(MatchError(f.cause))
			}
		})
		for _, c := range []struct{ op, place, function string }{
			{"Abs", "select", "select"}, {"Abs", "select_input", "select_input"}, {"Abs", "select_output", "select_output"}, {"Abs", "filter", "filter"},
			{"Abs", "reset", "reset"}, {"Exp", "claim", "claim"}, {"Exp", "release_claims", ""}, {"Abs", "pair_workspace", "workspace"},
			{"Abs", "pair", "run"}, {"Exp", "pair", "run"},
		} {
			It(fmt.Sprintf("is done without where a property's %s does %s for %s", c.place, f.name, c.op), func(ctx SpecContext) {
				want, _ := runModel(ctx, model(paired(c.op, "n")), nil, x())
				m := model(paired(c.op, fmt.Sprintf("%s=%d", c.place, f.how)))
				defer m.Close()
				p, err := carve.Compile(ctx, m, crash(f.how))
				Expect(err).NotTo(HaveOccurred())
				defer func() { Expect(p.Close()).To(Succeed()) }()
				for range 2 {
					out, err := p.Run(ctx, map[string]tensor.Value{"x": x()})
					Expect(err).NotTo(HaveOccurred())
					for i, v := range tensor.Of[float32](want) {
						Expect(tensor.Of[float32](out["y"].(*tensor.Tensor))[i]).To(BeNumerically("~", v, 1e-6))
					}
				}
				if c.function == "" {
					tells(ctx, p)
					return
				}
				tells(ctx, p, c.function+": "+f.cause.Error())
			})
		}
		It("is an error of Compile where a pass does "+f.name, func(ctx SpecContext) {
			err := failing(ctx, paired("Abs", fmt.Sprintf("pass=%d", f.how)), crash(f.how))
			var failed *carve.PassError
			Expect(errors.As(err, &failed)).To(BeTrue(), "%v", err)
			Expect(failed.Pass).To(Equal("nothing"))
			Expect(err).To(MatchError(f.cause))
			Expect(err).To(MatchError(And(ContainSubstring("crashown.c.so"), ContainSubstring("run:"))))
			if errors.Is(f.cause, plugin.ErrHung) {
				Expect(err).To(MatchError(ContainSubstring("within 1s"))) // a pass is part of a compilation
			}
		})
		It("is done without where a pass gives back what it made and does "+f.name, func(ctx SpecContext) {
			m := model(paired("Abs", fmt.Sprintf("release=%d", f.how)))
			defer m.Close()
			p, err := carve.Compile(ctx, m, crash(f.how))
			Expect(err).NotTo(HaveOccurred())
			defer func() { Expect(p.Close()).To(Succeed()) }()
			_, err = p.Run(ctx, map[string]tensor.Value{"x": x()})
			Expect(err).NotTo(HaveOccurred())
			tells(ctx, p)
		})
	}

	It("has its calls where they are expected, though room is found for them at every second try only", func(ctx SpecContext) {
		program, err := os.Executable()
		Expect(err).NotTo(HaveOccurred())
		dir := GinkgoT().TempDir()
		host := filepath.Join(dir, "host")
		script := `#!/bin/sh
if mkdir %[1]s/once 2>/dev/null; then # every other time it says what a process says whose own memory lies in the way, and is slow to go
  printf '\001\000\000\000{"error":"has no room","code":-1}' >&4
  sleep 0.5 >/dev/null 2>&1 &
  exit 2
fi
rmdir %[1]s/once
exec %[2]s "$@"
`
		Expect(os.WriteFile(host, fmt.Appendf(nil, script, dir, program), 0o700)).To(Succeed())
		o := crash(scribbles)
		o.PluginOptions["host"] = host
		m := model(paired("Abs", fmt.Sprintf("select=%d", scribbles)))
		defer m.Close()
		p, err := carve.Compile(ctx, m, o)
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(p.Close()).To(Succeed()) }()
		tells(ctx, p, "select: "+plugin.ErrCorrupt.Error())
	})
})
