package carve_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/zootest"
)

// wire is a protocol buffer message under construction, for models that no exporter writes.
type wire []byte

func (w wire) num(field protowire.Number, v int64) wire {
	return protowire.AppendVarint(protowire.AppendTag(w, field, protowire.VarintType), uint64(v))
}

func (w wire) str(field protowire.Number, values ...string) wire {
	for _, v := range values {
		w = protowire.AppendString(protowire.AppendTag(w, field, protowire.BytesType), v)
	}
	return w
}

func (w wire) sub(field protowire.Number, messages ...wire) wire {
	for _, m := range messages {
		w = protowire.AppendBytes(protowire.AppendTag(w, field, protowire.BytesType), m)
	}
	return w
}

// wireModel is a model of operator set 17 with this graph.
func wireModel(graph wire) []byte {
	return wire{}.num(1, 8).sub(8, wire{}.num(2, 17)).sub(7, graph)
}

func wireNode(op, name string, in, out []string) wire {
	return wire{}.str(1, in...).str(2, out...).str(3, name).str(4, op)
}

// wirePort is a float tensor of rank 1.
func wirePort(name string, n int64) wire {
	dims := wire{}.sub(1, wire{}.num(1, n))
	return wire{}.str(1, name).sub(2, wire{}.sub(1, wire{}.num(1, 1).sub(2, dims)))
}

// runBytes loads, compiles and runs a model with inputs of ones, its symbols 1. What a file of this size may not do in time
// or memory fails the spec.
func runBytes(ctx context.Context, data []byte, o *carve.Options) error {
	m, err := carve.Parse(ctx, data)
	if err != nil {
		return err
	}
	defer m.Close()
	return runModel(ctx, m, o)
}

func runModel(ctx context.Context, m *carve.Model, o *carve.Options) error {
	p, err := carve.Compile(ctx, m, o)
	if err != nil {
		return err
	}
	defer p.Close()
	feeds := map[string]tensor.Value{}
	for _, port := range p.Inputs() {
		bind := graph.Bindings{}
		symbols := map[string]bool{}
		for _, d := range port.Type.Shape {
			d.Symbols(symbols)
		}
		for s := range symbols {
			bind[s] = 1
		}
		dims, err := port.Type.Shape.Eval(bind, []int{})
		if err != nil {
			return err
		}
		n, err := tensor.NumElements(dims)
		if err != nil || n > 1<<24 || !port.Type.IsTensor() {
			return errHuge
		}
		t, err := tensor.New(port.Type.DType, dims...)
		if err != nil {
			return err
		}
		feeds[port.Name] = t
	}
	_, err = p.Run(ctx, feeds)
	return err
}

var errHuge = errors.New("an input is huge")

// small reports the growth of memory at its peak while fn runs, where the system tells it.
func peakDuring(fn func()) int64 {
	debug.FreeOSMemory()
	if os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) != nil {
		fn()
		return 0
	}
	before := residentBytes()
	fn()
	b, err := os.ReadFile("/proc/self/status")
	Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(b)) {
		var kb int64
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kb); err == nil {
			return kb<<10 - before
		}
	}
	return 0
}

// typed reports whether an error is one of carve's.
func typed(err error) bool {
	var parse *onnx.Error
	var pass *carve.PassError
	var step *carve.StepError
	var input *carve.InputError
	return errors.As(err, &parse) || errors.As(err, &pass) || errors.As(err, &step) || errors.As(err, &input) ||
		errors.Is(err, carve.ErrMemoryLimit) || errors.Is(err, errHuge)
}

// export writes a model with its weights inside.
func export(ctx context.Context, m *carve.Model) []byte {
	GinkgoHelper()
	var b strings.Builder
	src := m.Source()
	if src == nil {
		src = &onnx.Model{Graph: m.Graph()}
	}
	Expect(onnx.Write(ctx, &b, nil, src, nil)).To(Succeed())
	return []byte(b.String())
}

var _ = Describe("hostile models", Serial, func() {
	const most = 600 << 20

	Describe("that are damaged", func() {
		tolerate := func(data []byte, what string) {
			GinkgoHelper()
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			o := &carve.Options{Threads: 1}
			before := zootest.ProcessorTime()
			err := runBytes(ctx, data, o)
			Expect(err == nil || typed(err) || errors.Is(err, context.DeadlineExceeded)).To(BeTrue(), "%s: %T %v", what, err, err)
			Expect(zootest.ProcessorTime()-before).To(BeNumerically("<", 60*time.Second), what)
		}

		It("are errors: every prefix", func(ctx SpecContext) {
			data := export(ctx, textModel(smallNet()))
			Expect(peakDuring(func() {
				for n := range data {
					if n < 200 || n > len(data)-200 || n%41 == 0 {
						tolerate(data[:n], fmt.Sprintf("%d of %d bytes", n, len(data)))
					}
				}
			})).To(BeNumerically("<", most))
		})

		It("are errors, or models: bits flipped at random", func(ctx SpecContext) {
			data := export(ctx, textModel(smallNet()))
			r := rand.New(rand.NewPCG(1, 2))
			Expect(peakDuring(func() {
				for i := range 400 {
					c := append([]byte{}, data...)
					for range 1 + i%4 {
						c[r.IntN(len(c))] ^= 1 << r.IntN(8)
					}
					tolerate(c, fmt.Sprintf("flip %d", i))
				}
			})).To(BeNumerically("<", most))
		})

		for _, name := range []string{"bert_tiny", "lstm_tagger", "unet", "ssdlite320_mobilenet_v3_large"} {
			It("are errors, or models: bits flipped at random in "+name, func(ctx SpecContext) {
				path, err := zootest.Shared("models/" + name + ".onnx")
				if errors.Is(err, zootest.ErrAbsent) {
					Skip(err.Error())
				}
				Expect(err).NotTo(HaveOccurred())
				data, err := os.ReadFile(path)
				Expect(err).NotTo(HaveOccurred())
				r := rand.New(rand.NewPCG(3, uint64(len(data))))
				file := filepath.Join(GinkgoT().TempDir(), name+".onnx")
				weights, err := os.ReadFile(strings.TrimSuffix(zooPath(name), ".onnx") + ".bin")
				Expect(err).NotTo(HaveOccurred())
				Expect(os.WriteFile(filepath.Join(filepath.Dir(file), name+".bin"), weights, 0o600)).To(Succeed())
				for range 12 {
					c := append([]byte{}, data...)
					c[r.IntN(len(c))] ^= 1 << r.IntN(8)
					Expect(os.WriteFile(file, c, 0o600)).To(Succeed())
					short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
					before := zootest.ProcessorTime()
					m, err := carve.Open(short, file)
					if err == nil {
						err = runModel(short, m, nil)
						Expect(m.Close()).To(Succeed())
					}
					cancel()
					Expect(err == nil || typed(err) || errors.Is(err, context.DeadlineExceeded)).To(BeTrue(), "%T %v", err, err)
					Expect(zootest.ProcessorTime() - before).To(BeNumerically("<", 60*time.Second))
				}
			})
		}
	})

	DescribeTable("that make no sense are typed errors that name the place",
		func(ctx SpecContext, g wire, cause error, place string) {
			err := runBytes(ctx, wireModel(g), nil)
			Expect(err).To(HaveOccurred())
			if cause != nil {
				Expect(err).To(MatchError(cause))
			}
			Expect(typed(err)).To(BeTrue(), "%T", err)
			Expect(err.Error()).To(ContainSubstring(place))
		},
		Entry("a cycle", wire{}.sub(1, wireNode("Add", "first", []string{"x", "b"}, []string{"a"}), wireNode("Relu", "second", []string{"a"}, []string{"b"})).
			sub(11, wirePort("x", 2)).sub(12, wirePort("b", 2)), onnx.ErrCycle, "first"),
		Entry("a node that reads itself", wire{}.sub(1, wireNode("Add", "selfish", []string{"x", "a"}, []string{"a"})).
			sub(11, wirePort("x", 2)).sub(12, wirePort("a", 2)), onnx.ErrCycle, "selfish"),
		Entry("a dangling operand", wire{}.sub(1, wireNode("Add", "loose", []string{"x", "nowhere"}, []string{"a"})).
			sub(11, wirePort("x", 2)).sub(12, wirePort("a", 2)), onnx.ErrDangling, "nowhere"),
		Entry("a dangling output", wire{}.sub(1, wireNode("Relu", "r", []string{"x"}, []string{"a"})).
			sub(11, wirePort("x", 2)).sub(12, wirePort("nowhere", 2)), onnx.ErrDangling, "nowhere"),
		Entry("two producers", wire{}.sub(1, wireNode("Relu", "r", []string{"x"}, []string{"a"}), wireNode("Neg", "s", []string{"x"}, []string{"a"})).
			sub(11, wirePort("x", 2)).sub(12, wirePort("a", 2)), onnx.ErrDuplicate, "value a"),
		Entry("a node that writes an input", wire{}.sub(1, wireNode("Relu", "r", []string{"x"}, []string{"x"})).
			sub(11, wirePort("x", 2)).sub(12, wirePort("x", 2)), onnx.ErrDuplicate, "x"),
		Entry("two inputs of one name", wire{}.sub(1, wireNode("Relu", "r", []string{"x"}, []string{"a"})).
			sub(11, wirePort("x", 2), wirePort("x", 3)).sub(12, wirePort("a", 2)), onnx.ErrDuplicate, "x"),
		Entry("an unknown operator", wire{}.sub(1, wireNode("Frobnicate", "f", []string{"x"}, []string{"a"})).
			sub(11, wirePort("x", 2)).sub(12, wirePort("a", 2)), nil, "Frobnicate"),
		Entry("too few operands", wire{}.sub(1, wireNode("Add", "lonely", []string{"x"}, []string{"a"})).
			sub(11, wirePort("x", 2)).sub(12, wirePort("a", 2)), nil, "lonely"),
		Entry("shapes that do not fit", wire{}.sub(1, wireNode("Add", "misfit", []string{"x", "y"}, []string{"a"})).
			sub(11, wirePort("x", 2), wirePort("y", 3)).sub(12, wirePort("a", 2)), nil, "misfit"),
		Entry("a negative dim's tensor", wire{}.sub(1, wireNode("Relu", "r", []string{"w"}, []string{"a"})).
			sub(5, wire{}.num(1, -5).num(2, 1).str(8, "w")).sub(12, wirePort("a", 2)), nil, "w"),
		Entry("a tensor of 2^62 elements in four bytes", wire{}.sub(1, wireNode("Relu", "r", []string{"w"}, []string{"a"})).
			sub(5, wire{}.num(1, 1<<31).num(1, 1<<31).num(2, 1).str(8, "w").str(9, "\x00\x00\x80\x3f")).sub(12, wirePort("a", 2)), nil, "w"),
	)

	Describe("whose weights are elsewhere", func() {
		external := func(location string) wire {
			entry := wire{}.str(1, "location").str(2, location)
			return wire{}.sub(1, wireNode("Relu", "r", []string{"w"}, []string{"a"})).
				sub(5, wire{}.num(1, 4).num(2, 1).str(8, "w").sub(13, entry).num(14, 1)).sub(12, wirePort("a", 4))
		}
		open := func(ctx context.Context, dir, location string) error {
			file := filepath.Join(dir, "model.onnx")
			Expect(os.WriteFile(file, wireModel(external(location)), 0o600)).To(Succeed())
			m, err := carve.Open(ctx, file)
			if err == nil {
				m.Close()
			}
			return err
		}
		DescribeTable("do not leave the model's folder", func(ctx SpecContext, prepare func(dir string) string) {
			dir := GinkgoT().TempDir()
			done := make(chan error, 1)
			go func() {
				defer GinkgoRecover()
				done <- open(ctx, dir, prepare(dir))
			}()
			var err error
			Eventually(done).Should(Receive(&err))
			var e *onnx.Error
			Expect(errors.As(err, &e)).To(BeTrue(), "%v", err)
			Expect(e.Value).To(Equal("w"))
			Expect(e.File).NotTo(BeEmpty())
		},
			Entry("../../etc/passwd", func(string) string { return "../../etc/passwd" }),
			Entry("an absolute path", func(string) string { return "/etc/passwd" }),
			Entry("a link out", func(dir string) string {
				Expect(os.Symlink("/etc/passwd", filepath.Join(dir, "link"))).To(Succeed())
				return "link"
			}),
			Entry("a linked folder", func(dir string) string {
				Expect(os.Symlink("/etc", filepath.Join(dir, "etc"))).To(Succeed())
				return "etc/passwd"
			}),
			Entry("a FIFO", func(dir string) string {
				makeFIFO(filepath.Join(dir, "pipe"))
				return "pipe"
			}),
			Entry("a folder", func(dir string) string {
				Expect(os.Mkdir(filepath.Join(dir, "sub"), 0o755)).To(Succeed())
				return "sub"
			}),
			Entry("nothing", func(string) string { return "absent.bin" }),
			Entry("a short file", func(dir string) string {
				Expect(os.WriteFile(filepath.Join(dir, "short.bin"), make([]byte, 15), 0o600)).To(Succeed())
				return "short.bin"
			}),
		)
	})

	// Each asks for 2^40 elements or more: once as a constant, once as an input's value, when nothing is known before.
	const huge = 1 << 40
	DescribeTable("that ask for 2^40 elements are refused",
		func(ctx SpecContext, body string, operand *tensor.Tensor) {
			text := func(n string) string {
				return "graph {\n  opset 17\n  input %x: f32[1,1,4,4]\n" + n + "\n" + body + "\n  output %y\n}"
			}
			shape := strings.Trim(strings.ReplaceAll(fmt.Sprint(operand.Shape), " ", ","), "[]")
			kind, vals := "i64", fmt.Sprint(tensor.Of[int64](operand))
			if operand.DType == tensor.Float32 {
				kind, vals = "f32", fmt.Sprint(tensor.Of[float32](operand))
			}
			vals = strings.ReplaceAll(strings.Trim(vals, "[]"), " ", ", ")
			feeds := map[string]tensor.Value{"x": wave(1, 1, 4, 4)}
			for _, def := range []string{"const %n = " + kind + "[" + shape + "]{" + vals + "}", "input %n: " + kind + "[" + shape + "]"} {
				for _, list := range [][]backend.Config{nil, onReference} {
					var err error
					before := zootest.ProcessorTime()
					grown := peakDuring(func() {
						g, perr := graph.Parse(text(def))
						Expect(perr).NotTo(HaveOccurred())
						var p *carve.Program
						if p, err = carve.Compile(ctx, carve.FromGraph(g), &carve.Options{Backends: list}); err != nil {
							return
						}
						defer p.Close()
						if strings.HasPrefix(def, "input") {
							feeds["n"] = operand
						}
						_, err = p.Run(ctx, feeds)
						delete(feeds, "n")
					})
					Expect(err).To(HaveOccurred(), def)
					Expect(typed(err)).To(BeTrue(), "%T %v", err, err)
					Expect(err.Error()).To(ContainSubstring("big"), def)
					Expect(grown).To(BeNumerically("<", most), def)
					Expect(zootest.ProcessorTime()-before).To(BeNumerically("<", 60*time.Second), def)
				}
			}
		},
		Entry("ConstantOfShape", `  %y = ConstantOfShape(%n) "big"`, tensor.From([]int64{1 << 20, 1 << 20})),
		Entry("ConstantOfShape beyond 2^63", `  %y = ConstantOfShape(%n) "big"`, tensor.From([]int64{1 << 40, 1 << 40})),
		Entry("Expand", `  %y = Expand(%x, %n) "big"`, tensor.From([]int64{1 << 18, 1 << 18, 4, 4})),
		Entry("Tile", `  %y = Tile(%x, %n) "big"`, tensor.From([]int64{1 << 18, 1 << 18, 1, 1})),
		Entry("Range", "  const %a = i64[]{0}\n  const %d = i64[]{1}\n  const %r = i64[0]{}\n  %z = Reshape(%n, %r)\n  %y = Range(%a, %z, %d) \"big\"", tensor.From([]int64{huge})),
		Entry("Pad", `  %y = Pad(%x, %n) "big"`, tensor.From([]int64{0, 0, 1 << 20, 1 << 20, 0, 0, 0, 0})),
		Entry("Resize by sizes", `  %y = Resize(%x, _, _, %n) "big"`, tensor.From([]int64{1, 1, 1 << 20, 1 << 20})),
		Entry("Resize by scales", `  %y = Resize(%x, _, %n) "big"`, tensor.From([]float32{1, 1, 1 << 18, 1 << 18})),
		Entry("OneHot", "  const %v = f32[2]{0, 1}\n  const %i = i64[2]{0, 1}\n  %y = OneHot(%i, %n, %v) \"big\"", tensor.From([]int64{huge})),
		Entry("HannWindow", "  const %r = i64[0]{}\n  %z = Reshape(%n, %r)\n  %y = HannWindow(%z) \"big\"", tensor.From([]int64{huge})),
		Entry("Einsum", "  const %s = f32[]{1}\n  %a = ConstantOfShape(%n) \"big\"\n  %y = Einsum(%a, %a; equation=\"i,j->ij\") \"big too\"", tensor.From([]int64{huge})),
	)

	It("that ask for it by their dims are refused", func(ctx SpecContext) {
		for _, body := range []string{
			"%y = Add(%a, %b) \"big\"", "%y = MatMul(%a, %b) \"big\"", "%y = Einsum(%a, %b; equation=\"ij,jk->ik\") \"big\"",
			"%c = Where(%k, %a, %b) \"big\"\n  %y = Neg(%c)",
		} {
			p := compile(ctx, textModel("graph {\n  opset 17\n  input %a: f32[N,1]\n  input %b: f32[1,M]\n  const %k = bool[1]{true}\n  "+body+"\n  output %y\n}"), nil)
			n := 1 << 20
			feeds := map[string]tensor.Value{"a": wave(n, 1), "b": wave(1, n)}
			var err error
			Expect(peakDuring(func() { _, err = p.Run(ctx, feeds) })).To(BeNumerically("<", most))
			Expect(err).To(HaveOccurred())
			Expect(typed(err)).To(BeTrue(), "%T %v", err, err)
		}
	})
})
