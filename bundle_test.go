package carve_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/bundle"
)

// bundleOf compiles a model and writes a bundle of it.
func bundleOf(ctx SpecContext, m *carve.Model, o *carve.Options, b *carve.BundleOptions) (path string, p *carve.Program) {
	GinkgoHelper()
	p, err := carve.Compile(ctx, m, o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(p.Close)
	path = filepath.Join(GinkgoT().TempDir(), "m.carve")
	Expect(p.SaveBundle(ctx, path, b)).To(Succeed())
	return path, p
}

// opens compiles what is at path.
func opens(ctx SpecContext, path string, o *carve.Options) *carve.Program {
	GinkgoHelper()
	m, err := carve.Open(ctx, path)
	Expect(err).NotTo(HaveOccurred())
	defer m.Close()
	p, err := carve.Compile(ctx, m, o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(p.Close)
	return p
}

var _ = Describe("bundles", func() {
	DescribeTable("compute the same bytes, report the same, and pack nothing", func(ctx SpecContext, o carve.Options) {
		for _, src := range []string{branches(), looped(), pictures(), plain} {
			m := carve.FromGraph(graphOf(src))
			defer m.Close()
			path, p := bundleOf(ctx, m, &o, nil)
			again := &carve.Options{Verify: true, CopyWeights: o.CopyWeights}
			if len(o.Backends) > 0 && o.Backends[0].Options != nil { // which a bundle has not, but their effects
				again.Backends = o.Backends
			}
			q := opens(ctx, path, again)
			Expect(q.Inputs()).To(BeComparableTo(p.Inputs()))
			Expect(q.Outputs()).To(BeComparableTo(p.Outputs()))
			in := map[string]tensor.Value{}
			for _, x := range p.Inputs() {
				shape, err := x.Type.Shape.Eval(map[string]int64{"N": 3}, nil)
				Expect(err).NotTo(HaveOccurred())
				in[x.Name] = wave(shape...)
			}
			want, err := p.Run(ctx, in)
			Expect(err).NotTo(HaveOccurred())
			got, err := q.Run(ctx, in)
			Expect(err).NotTo(HaveOccurred())
			Expect(got).To(BeComparableTo(want))
			if !o.CopyWeights {
				Expect(q.Memory().PackedWeights).To(BeZero())
			}
			was, err := p.Report(ctx, nil)
			Expect(err).NotTo(HaveOccurred())
			is, err := q.Report(ctx, nil)
			Expect(err).NotTo(HaveOccurred())
			is.Peak.Before = was.Peak.Before // a bundle does not have the model's order
			for i := range is.Devices {
				is.Devices[i].Method = was.Devices[i].Method // a plan follows the one before, which is of the other shapes here
			}
			for _, r := range []*carve.Report{was, is} {
				for i := range r.Conversions {
					if c := &r.Conversions[i]; strings.HasPrefix(c.Value, "%") {
						c.Value = "" // values without names go by numbers
					}
				}
				slices.SortFunc(r.Conversions, func(a, b carve.ConversionReport) int {
					return cmp.Or(cmp.Compare(a.Value+a.To, b.Value+b.To), cmp.Compare(a.Bytes, b.Bytes))
				})
			}
			Expect(is).To(BeComparableTo(was))
		}
	},
		Entry("by priority", carve.Options{}),
		Entry("by cost", carve.Options{Placement: carve.Modelled}),
		Entry("with the reference kernels", carve.Options{Backends: []backend.Config{{Name: "reference"}}}),
		Entry("each operator by itself", carve.Options{Isolated: true}),
		Entry("out of the file", carve.Options{CopyWeights: true}),
		Entry("in bfloat16", carve.Options{Backends: []backend.Config{{Name: "cpu", Options: map[string]string{"precision": "bf16", "isa": "portable"}}}}),
		Entry("with weights of half precision", carve.Options{Backends: []backend.Config{{Name: "cpu", Options: map[string]string{"weights": "f16", "isa": "portable"}}}}),
	)

	It("hold for what they were made for, and fall back to the model where they have it", func(ctx SpecContext) {
		m := carve.FromGraph(graphOf(branches()))
		defer m.Close()
		path, _ := bundleOf(ctx, m, &carve.Options{Threads: 2}, nil)
		b, err := carve.Open(ctx, path)
		Expect(err).NotTo(HaveOccurred())
		defer b.Close()
		_, err = carve.Compile(ctx, b, &carve.Options{Threads: 1})
		Expect(err).To(MatchError(carve.ErrPlanMisfit))
		Expect(err).To(MatchError(And(ContainSubstring("threads: the plan has 2, here is 1"), ContainSubstring("not portable"))))

		portable, p := bundleOf(ctx, m, &carve.Options{Threads: 2}, &carve.BundleOptions{Portable: true})
		q := opens(ctx, portable, &carve.Options{Threads: 1})
		Expect(save(ctx, m, &carve.Options{Threads: 1})).To(Equal(text(ctx, q)))
		Expect(text(ctx, opens(ctx, portable, nil))).To(Equal(text(ctx, p)))
	})

	It("are asked for the shapes that their groups rest on, whatever they say themselves", func(ctx SpecContext) {
		m := carve.FromGraph(graphOf("graph {\n  opset 17\n  input %x: f32[N,9]\n  input %z: f32[M,9]\n  %p = Sin(%x)\n  %y = Add(%p, %z) \"sum\"\n  output %y\n}"))
		defer m.Close()
		path, _ := bundleOf(ctx, m, nil, nil)
		whole, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		f, err := bundle.Parse(whole)
		Expect(err).NotTo(HaveOccurred())
		notes, err := bundle.ReadNotes(f)
		Expect(err).NotTo(HaveOccurred())
		Expect(notes.Checks).To(BeTrue())
		notes.Checks = false
		part, err := notes.Part()
		Expect(err).NotTo(HaveOccurred())
		parts := []bundle.Part{part}
		for i := range binary.LittleEndian.Uint32(whole[12:]) {
			entry := whole[32+40*i:]
			id := bundle.ID{Kind: binary.LittleEndian.Uint32(entry), Number: binary.LittleEndian.Uint32(entry[4:])}
			if id != part.ID {
				b, err := f.Section(id, true)
				Expect(err).NotTo(HaveOccurred())
				parts = append(parts, bundle.Bytes(id, b))
			}
		}
		careless := filepath.Join(GinkgoT().TempDir(), "careless.carve")
		Expect(bundle.Create(careless, parts)).To(Succeed())
		for _, file := range []string{path, careless} {
			p := opens(ctx, file, nil)
			_, err := p.Run(ctx, map[string]tensor.Value{"x": wave(3, 9), "z": wave(3, 9)})
			Expect(err).NotTo(HaveOccurred())
			_, err = p.Run(ctx, map[string]tensor.Value{"x": wave(300, 9), "z": wave(4, 9)})
			Expect(err).To(MatchError(carve.ErrInput))
			Expect(err).To(MatchError(ContainSubstring(`"sum"`)))
		}
	})

	It("that are damaged anywhere are errors, or mean what they did", func(ctx SpecContext) {
		m := carve.FromGraph(graphOf(pictures()))
		defer m.Close()
		path, _ := bundleOf(ctx, m, nil, nil)
		whole, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		broken := filepath.Join(GinkgoT().TempDir(), "broken")
		try := func(b []byte) error {
			Expect(os.WriteFile(broken, b, 0o644)).To(Succeed())
			return compiles(ctx, broken)
		}
		Expect(try(whole)).To(Succeed())
		for n := 8; n < len(whole); n += 1 + len(whole)/40 {
			Expect(try(whole[:n])).To(MatchError(carve.ErrBundle), "%d bytes", n)
		}
		for i := 8; i < 4096; i += 5 {
			b := append([]byte(nil), whole...)
			b[i] ^= 0x10
			if err := try(b); err != nil {
				Expect(err).To(MatchError(carve.ErrBundle), "byte %d", i)
				Expect(err).To(MatchError(MatchRegexp("at byte [0-9]+: expected .*, found ")))
			}
		}
	})
})

func text(ctx SpecContext, p *carve.Program) string {
	GinkgoHelper()
	var b fmtBuffer
	Expect(p.SavePlan(ctx, &b, nil)).To(Succeed())
	return string(b)
}

type fmtBuffer []byte

func (b *fmtBuffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

// plain is a model without constants.
const plain = "graph {\n  opset 17\n  input %x: f32[N,8]\n  %a = Relu(%x) \"a\"\n  output %a\n}"

// pictures is a model with weights that are packed.
func pictures() string {
	return fmt.Sprintf(`graph "images" {
  opset 17
  input %%x: f32[N,3,16,16]
  %s
  %s
  %s
  %%a = Conv(%%x, %%first; pads=[1, 1, 1, 1]) "a"
  %%b = Relu(%%a) "b"
  %%c = Conv(%%b, %%second) "c"
  %%d = GlobalAveragePool(%%c) "d"
  %%e = Flatten(%%d) "e"
  %%f = MatMul(%%e, %%last) "f"
  output %%f
}`, constant("first", 16, 3, 3, 3), constant("second", 16, 16, 3, 3), constant("last", 16, 10))
}

// keeping is the reference backend, whose executables save bytes that it compiles from again.
type keeping struct {
	*reference.Backend
	fingerprint string
	guard       *sync.Mutex // groups are loaded at the same time
	loaded      *int
	seen        *[]string
}

type kept struct{ backend.Executable }

func (kept) Save(context.Context) ([]byte, error) { return []byte("compiled"), nil }

func (k keeping) Compile(ctx context.Context, g *graph.Graph, o backend.CompileOptions) (backend.Executable, error) {
	exe, err := k.Backend.Compile(ctx, g, o)
	return kept{exe}, err
}

func (k keeping) Fingerprint() string { return k.fingerprint }

func (k keeping) Load(ctx context.Context, g *graph.Graph, saved []byte, o backend.CompileOptions) (backend.Executable, error) {
	k.guard.Lock()
	defer k.guard.Unlock()
	*k.seen = append(*k.seen, string(saved))
	if *k.loaded < 0 {
		return nil, errors.New("not these")
	}
	*k.loaded++
	return k.Compile(ctx, g, o)
}

var _ = Describe("what backends save", func() {
	It("is loaded under the same fingerprint, and compiled anew otherwise", func(ctx SpecContext) {
		m := carve.FromGraph(graphOf(looped()))
		defer m.Close()
		loaded, seen := 0, []string{}
		with := func(fingerprint string) *carve.Options {
			b := keeping{&reference.Backend{Name: "kept"}, fingerprint, &sync.Mutex{}, &loaded, &seen}
			return &carve.Options{Backends: []backend.Config{{Name: "kept"}}, Open: map[string]backend.Backend{"kept": b}}
		}
		path, p := bundleOf(ctx, m, with("one"), nil)
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		groups := 0
		for _, g := range r.Groups {
			if g.Backend == "kept" {
				groups++
			}
		}
		Expect(groups).To(BeNumerically(">", 1))
		in := map[string]tensor.Value{"x": wave(2, 4)}
		want, err := p.Run(ctx, in)
		Expect(err).NotTo(HaveOccurred())

		same := func(o *carve.Options) {
			GinkgoHelper()
			got, err := opens(ctx, path, o).Run(ctx, in)
			Expect(err).NotTo(HaveOccurred())
			Expect(got).To(BeComparableTo(want))
		}
		same(with("one"))
		Expect(loaded).To(Equal(groups))
		Expect(seen).To(HaveEach("compiled"))
		same(with("another"))
		Expect(loaded).To(Equal(groups))
		loaded = -1
		same(with("one"))
		Expect(seen).To(HaveLen(2 * groups))
	})
})

// FuzzBundle puts other text in the place of a bundle's graph and notes, under checksums that are right: opening and compiling
// it is an error, or a Program that closes.
func FuzzBundle(f *testing.F) {
	g, err := graph.Parse(pictures())
	if err != nil {
		f.Fatal(err)
	}
	m := carve.FromGraph(g)
	defer m.Close()
	p, err := carve.Compile(context.Background(), m, &carve.Options{Threads: 1})
	if err != nil {
		f.Fatal(err)
	}
	defer p.Close()
	dir := f.TempDir()
	path := filepath.Join(dir, "m.carve")
	if err := p.SaveBundle(context.Background(), path, nil); err != nil {
		f.Fatal(err)
	}
	file, err := bundle.Open(path)
	if err != nil {
		f.Fatal(err)
	}
	var ids []bundle.ID
	for _, kind := range []uint32{bundle.KindNotes, bundle.KindReport, bundle.KindPlan} {
		ids = append(ids, bundle.ID{Kind: kind})
	}
	for _, n := range []uint32{bundle.Carved, bundle.Checks} {
		ids = append(ids, bundle.ID{Kind: bundle.KindGraph, Number: n}, bundle.ID{Kind: bundle.KindUses, Number: n})
	}
	ids = append(ids, bundle.ID{Kind: bundle.KindTable}, bundle.ID{Kind: bundle.KindData})
	section := func(id bundle.ID) []byte {
		b, err := file.Section(id, true)
		if err != nil || b == nil {
			f.Fatal(id, err)
		}
		return bytes.Clone(b) // the mapping may be gone before the fuzzer is
	}
	const notes, graphs, uses, table = 0, 3, 4, 7
	f.Add(section(ids[notes]), section(ids[graphs]), section(ids[uses]), section(ids[table]))
	text := string(section(ids[graphs]))
	for _, change := range [][2]string{{"NCHW16c", "NCHW8c"}, {"16,16", "16,160"}, {"f32", "i64"}, {`on "cpu"`, `on "other"`}, {"conv-tail", "tail"}, {"Conv", "Gemm"}, {"16", "1600000000"}} {
		f.Add(section(ids[notes]), []byte(strings.Replace(text, change[0], change[1], 1)), section(ids[uses]), section(ids[table]))
		f.Add(section(ids[notes]), []byte(strings.ReplaceAll(text, change[0], change[1])), section(ids[uses]), section(ids[table]))
	}
	other := filepath.Join(dir, "other.carve")
	f.Fuzz(func(t *testing.T, a, b, c, d []byte) {
		var parts []bundle.Part
		for i, id := range ids {
			of := section(id)
			switch i {
			case notes:
				of = a
			case graphs:
				of = b
			case uses:
				of = c
			case table:
				of = d
			}
			parts = append(parts, bundle.Bytes(id, of))
		}
		if err := bundle.Create(other, parts); err != nil {
			t.Fatal(err)
		}
		m, err := carve.Open(context.Background(), other)
		if err != nil {
			return
		}
		defer m.Close()
		p, err := carve.Compile(context.Background(), m, &carve.Options{MaxArenaBytes: 1 << 20})
		if err != nil {
			return
		}
		_ = p.Close()
	})
}
