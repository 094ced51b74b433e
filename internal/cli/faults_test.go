package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/cli"
)

var _ = Describe("faults", func() {
	DescribeTable("are one line on stderr and exit code 1", func(ctx SpecContext, want string, args ...string) {
		path := save(ctx, affine())
		for i, a := range args {
			if a == "MODEL" {
				args[i] = path
			}
		}
		Expect(fails(ctx, args...)).To(ContainSubstring(want))
	},
		Entry("unknown command", `unknown command "walk"`, "walk"),
		Entry("unknown command of a command", `unknown command "walk"; carve plan --help lists`, "plan", "walk"),
		Entry("help for an unknown command", `unknown command "walk"; carve --help lists`, "help", "walk"),
		Entry("help for an unknown command of a command", `unknown command "walk"; carve plan --help lists`, "help", "plan", "walk"),
		Entry("unknown flag", "unknown flag: --fast; carve run --help lists", "run", "MODEL", "--fast"),
		Entry("flag that is no number", "--threads all: expected a whole number", "run", "MODEL", "--threads", "all"),
		Entry("flag that is no time", "--budget 3: expected a time such as", "run", "MODEL", "--budget", "3"),
		Entry("no model", "MODEL is missing; usage: carve run MODEL", "run"),
		Entry("no name for what is written", "OUT.onnx is missing", "convert", "MODEL"),
		Entry("no folder", "DIR… is missing", "onnxtest"),
		Entry("an empty name of a model", "MODEL is empty; usage: carve run MODEL", "run", ""),
		Entry("an empty name for what is written", "OUT.onnx is empty; usage: carve convert MODEL OUT.onnx", "convert", "MODEL", ""),
		Entry("an empty name of a folder", "DIR… is empty", "onnxtest", "somewhere", ""),
		Entry("a file given twice", `--config is given twice: "a.json" and "b.json"`, "run", "MODEL", "--config", "a.json", "--config", "b.json"),
		Entry("an argument too many", `unexpected argument "other"; usage: carve run MODEL`, "run", "MODEL", "other"),
		Entry("a plan as an argument", `unexpected argument "plan"; usage: carve plan apply MODEL --plan FILE`, "plan", "apply", "MODEL", "plan"),
		Entry("unknown placement", "--placement fast", "run", "MODEL", "--placement", "fast"),
		Entry("unknown hint", "--hint fast", "run", "MODEL", "--hint", "fast"),
		Entry("rows of a Batcher without one", "for --batcher, which is missing", "bench", "MODEL", "--max-batch", "3"),
		Entry("a file in a folder that is not there", "create "+filepath.Join("nowhere", "r.html"), "report", "MODEL", "--dim", "N=1", "-o", filepath.Join("nowhere", "r.html")),
		Entry("no such file", "no such file", "run", "nowhere.onnx"),
		Entry("unknown backend", `unknown backend (known:`, "run", "MODEL", "--backend", "gpu"),
		Entry("backend twice", `"cpu" is named twice`, "run", "MODEL", "--backend", "cpu,cpu"),
		Entry("empty backend", "a name is empty", "run", "MODEL", "--backend", "cpu,,reference"),
		Entry("property without a backend", "expected BACKEND.NAME", "run", "MODEL", "--disable-property", "conv-tail"),
		Entry("property that the backend does not have", `cpu has no property "magic" to switch off`, "run", "MODEL", "--disable-property", "cpu.magic"),
		Entry("property of an absent backend", "not among the backends", "run", "MODEL", "--disable-property", "gpu.x"),
		Entry("option without a key", "expected BACKEND.KEY=VALUE", "run", "MODEL", "--backend-option", "cpu=3"),
		Entry("option of an absent backend", `--backend does not name "reference"`, "run", "MODEL", "--backend-option", "reference.a=3"),
		Entry("option that the backend does not know", `"magic", expected isa, precision`, "run", "MODEL", "--backend-option", "cpu.magic=3"),
		Entry("dim without a number", "expected NAME=N", "run", "MODEL", "--dim", "N=many"),
		Entry("negative dim", "expected NAME=N", "run", "MODEL", "--dim", "N=-1"),
		Entry("dim twice", "set twice", "run", "MODEL", "--dim", "N=1", "--dim", "N=2"),
		Entry("unknown dim", "no input has a dim of that name (there are: N)", "run", "MODEL", "--dim", "M=1"),
		Entry("shape of an unknown input", `no input "z" (there are: x)`, "run", "MODEL", "--shape", "z=1,2"),
		Entry("shape that is none", `"a" is no dim`, "run", "MODEL", "--shape", "x=1,a"),
		Entry("shape of the wrong rank", "wrong rank", "run", "MODEL", "--shape", "x=1,2,3"),
		Entry("shape that the model forbids", "wrong shape", "run", "MODEL", "--shape", "x=1,4"),
		Entry("input without a file", "expected NAME=FILE", "run", "MODEL", "--input", "x"),
		Entry("unknown input", `no input "z"`, "run", "MODEL", "--input", "z=z.npy"),
		Entry("input file of an unknown kind", "expected a .npy or .pb file", "run", "MODEL", "--input", "x=x.csv"),
		Entry("absent input file", "no such file", "run", "MODEL", "--input", "x=none.npy"),
		Entry("negative threads", "must not be negative", "run", "MODEL", "--threads", "-2"),
		Entry("memory that is no size", "expected a number of bytes", "run", "MODEL", "--max-memory", "much"),
		Entry("memory of 0", "expected a number of bytes", "run", "MODEL", "--max-memory", "0"),
		Entry("less memory than the model needs", "more memory than --max-memory", "run", "MODEL", "--dim", "N=1000000", "--max-memory", "1.5 MiB"),
		Entry("device memory without a device", "expected DEVICE=SIZE", "run", "MODEL", "--device-memory", "1GiB"),
		Entry("device memory that is no size", "expected a number of bytes", "run", "MODEL", "--device-memory", "host=much"),
		Entry("device memory twice", "host is given twice", "run", "MODEL", "--device-memory", "host=1GiB", "--device-memory", "host=2GiB"),
		Entry("memory of a device that is not there", `no such device: a limit on "cuda:3" (there are: host)`, "run", "MODEL", "--device-memory", "cuda:3=1GiB"),
		Entry("less memory on a device than the model needs", "on host", "run", "MODEL", "--dim", "N=1000000", "--device-memory", "host=1.5MiB"),
		Entry("a device of a backend that has none to choose from", `cannot be placed on one of several devices: "cpu:1"`, "run", "MODEL", "--backend", "cpu:1"),
		Entry("node that does not exist", "the model has no such node", "partition", "MODEL", "--why", "nobody"),
		Entry("jobs", "at least 1", "onnxtest", ".", "--jobs", "0"),
	)

	It("name an input of the wrong shape or dtype", func(ctx SpecContext) {
		path := save(ctx, affine())
		Expect(fails(ctx, "run", path, "--input", "x="+writeNPY(tensor.From([]float64{1, 2, 3}, 1, 3)))).To(ContainSubstring(`"x": wrong dtype`))
		Expect(fails(ctx, "run", path, "--input", "x="+writeNPY(tensor.From([]float32{1, 2}, 1, 2)))).To(ContainSubstring(`"x": wrong shape`))
		Expect(fails(ctx, "run", path, "--dim", "N=2", "--input", "x="+writeNPY(tensor.From([]float32{1, 2, 3}, 1, 3)))).To(ContainSubstring(`"x"`))
	})

	It("name an operator that nobody runs, which inspect only lists", func(ctx SpecContext) {
		g := newGraph()
		x := g.AddInput("x", f32(2))
		n := g.AddNode(graph.NodeSpec{Op: graph.Op{Domain: "com.example", Name: "Magic"}, Name: "wand", Inputs: []*graph.Value{x}, Outputs: []string{"y"}})
		g.Opsets["com.example"] = 1
		g.SetOutputs(n.Outputs[0])
		path := save(ctx, g)
		Expect(fails(ctx, "run", path)).To(And(ContainSubstring(`"wand"`), ContainSubstring("com.example.Magic"),
			ContainSubstring("no backend runs the node; reference: "), HaveSuffix("; carve inspect lists all such operators\n")))
		Expect(succeeds(ctx, "inspect", path).stdout).To(ContainSubstring("unsupported: com.example.Magic (1 node)"))
	})

	It("name the dims that were taken as 1 where a model does not admit them", func(ctx SpecContext) {
		g := newGraph()
		x := g.AddInput("x", f32("N", 4))
		y := add(g, "Reshape", "fold", "y", []*graph.Value{x, g.AddConst("eight", tensor.From([]int64{8}))})
		g.SetOutputs(y)
		path := save(ctx, g)
		Expect(fails(ctx, "run", path)).To(HaveSuffix("; dims not set, taken as 1: N (--dim NAME=N)\n"))
		Expect(fails(ctx, "run", path, "--dim", "N=3")).NotTo(ContainSubstring("not set"))
		succeeds(ctx, "run", path, "--dim", "N=2")
	})

	It("hide control characters of a model", func(ctx SpecContext) {
		g := newGraph()
		x := g.AddInput("x", f32(2))
		n := g.AddNode(graph.NodeSpec{Op: graph.Op{Domain: "d", Name: "Magic"}, Name: "\x1b[2J\nwand\x07", Inputs: []*graph.Value{x}, Outputs: []string{"\x1b]0;y"}})
		g.Opsets["d"] = 1
		g.SetOutputs(n.Outputs[0])
		path := save(ctx, g)
		Expect(fails(ctx, "run", path)).NotTo(ContainSubstring("\x1b"))
		Expect(succeeds(ctx, "inspect", path).stdout).NotTo(ContainSubstring("\x1b"))
	})

	It("include an interruption", func(ctx SpecContext) {
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		path := save(ctx, affine())
		for _, args := range [][]string{{"run", path}, {"bench", path}, {"partition", path}, {"inspect", path}} {
			Expect(fails(canceled, args...)).To(ContainSubstring("interrupted"), args[0])
		}
	})

	DescribeTable("include results that could not be written", func(ctx SpecContext, args ...string) {
		path, csv := save(ctx, affine()), filepath.Join(GinkgoT().TempDir(), "buffers.csv")
		Expect(os.WriteFile(csv, []byte("id,lower,upper,size\na,0,2,4\n"), 0o600)).To(Succeed())
		for i, a := range args {
			args[i] = map[string]string{"MODEL": path, "BUFFERS": csv}[a]
			if args[i] == "" {
				args[i] = a
			}
		}
		stdout, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			Skip("no /dev/full here")
		}
		defer stdout.Close()
		var stderr strings.Builder
		Expect(cli.Run(ctx, args, stdout, &stderr)).To(Equal(cli.ExitError))
		Expect(stderr.String()).To(MatchRegexp(`(?m)^carve: (.*: )?write /dev/full: no space left on device\n\z`))
	},
		Entry("of run", "run", "MODEL", "--dim", "N=1"),
		Entry("of inspect", "inspect", "MODEL", "--dim", "N=1"),
		Entry("of partition", "partition", "MODEL", "--dim", "N=1"),
		Entry("of partition --why", "partition", "MODEL", "--dim", "N=1", "--why", "mul"),
		Entry("of bench", "bench", "MODEL", "--dim", "N=1", "--time", "1ms"),
		Entry("of memplan", "memplan", "BUFFERS"),
		Entry("of help", "help"),
		Entry("of version", "version"),
	)

	It("do not read FIFOs or folders", func(ctx SpecContext) {
		dir := GinkgoT().TempDir()
		Expect(os.Mkdir(filepath.Join(dir, "x.npy"), 0o755)).To(Succeed())
		Expect(fails(ctx, "run", save(ctx, affine()), "--input", "x="+filepath.Join(dir, "x.npy"))).To(ContainSubstring("regular file"))
		Expect(fails(ctx, "run", dir)).To(ContainSubstring("regular file"))
	})

	It("leave help and version alone", func(ctx SpecContext) {
		Expect(succeeds(ctx).stdout).To(ContainSubstring("onnxtest"))
		Expect(succeeds(ctx, "version").stdout).To(MatchRegexp(`\Acarve \S+.* go1\S+ \S+/\S+\n\z`))
		Expect(cli.ExitInfeasible).To(Equal(3))
		Expect(cli.ExitNoPlan).To(Equal(4))
	})
})
