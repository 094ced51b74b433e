package property_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

var _ = Describe("Predicates", func() {
	DescribeTable("say why not",
		func(p property.Predicate, text, want string) {
			g, err := graph.Parse("graph \"p\" {\n  input %x: f32[N,2]\n  input %k: f32[2]\n  input %u: f32[?1]\n  dims %d = i64 [N]\n  " + text + "\n}\n")
			Expect(err).NotTo(HaveOccurred())
			for n := range g.Nodes() {
				why := p(n)
				if want == "" {
					Expect(why).NotTo(HaveOccurred())
				} else {
					Expect(why.Error()).To(Equal(want))
				}
			}
		},
		Entry("operator", property.Ops("Neg", "a.b.C"), "%y: f32[2] = Neg(%k)", ""),
		Entry("operator of another domain", property.Ops("Neg", "a.b.C"), "%y: f32[2] = a.b::C(%k)", ""),
		Entry("another operator", property.Ops("Neg", "Abs"), "%y: f32[2] = Exp(%k)", "unsupported: Exp is not among Neg, Abs"),
		Entry("one of many", property.Ops("1", "2", "3", "4", "5", "6", "7", "8", "9"), "%y: f32[2] = Exp(%k)",
			"unsupported: Exp is not among 1, 2, 3, 4, 5, 6, 7, 8, …"),
		Entry("static shapes", property.Predicate(property.StaticShapes), "%y: f32[2] = Neg(%k)", ""),
		Entry("a symbol", property.Predicate(property.StaticShapes), "%y: f32[N,2] = Neg(%x)", "dynamic-shape: x is f32[N,2]"),
		Entry("a symbol that is planned", property.Predicate(property.PlannedShapes), "%y: f32[N,2] = Neg(%x)", ""),
		Entry("a size that depends on data", property.Predicate(property.PlannedShapes), "%y: f32[?1] = Neg(%u)", "dynamic-shape: u is f32[?1]"),
		Entry("a result that depends on data", property.Predicate(property.PlannedShapes), "%y: f32[?2] = Op(%k)", "dynamic-shape: y is f32[?2]"),
		Entry("element types", property.DTypes(tensor.Float32), "%y: f32[N] = Expand(%k, %d)", ""),
		Entry("another element type", property.DTypes(tensor.Float32), "%y: i64[2] = Cast(%k)", "dtype: y is i64[2]"),
		Entry("a name", property.Named("/a/**"), "%y: f32[2] = Neg(%k) \"n\" from(\"/a/b/c\")", ""),
		Entry("no such name", property.Named("/b/*"), "%y: f32[2] = Neg(%k) \"n\" from(\"/a/b/c\")", "not-selected: its name matches none of /b/*"),
		Entry("what is excluded", property.Not(property.Ops("Neg")), "%y: f32[2] = Neg(%k)", "not-selected: it is excluded"),
	)

	DescribeTable("match names with globs",
		func(glob, name string, want bool) { Expect(property.MatchName(glob, name)).To(Equal(want)) },
		Entry(nil, "", "", true),
		Entry(nil, "a", "a", true),
		Entry(nil, "a", "b", false),
		Entry(nil, "", "a", false),
		Entry(nil, "*", "", true),
		Entry(nil, "*", "abc", true),
		Entry(nil, "*", "a/c", false),
		Entry(nil, "**", "a/c", true),
		Entry(nil, "a*c", "abbbc", true),
		Entry(nil, "a*c", "abbb", false),
		Entry(nil, "a*b*c", "axbxbxc", true),
		Entry(nil, "/a/*/c", "/a/b/c", true),
		Entry(nil, "/a/*/c", "/a/b/b/c", false),
		Entry(nil, "/a/**/c", "/a/b/b/c", true),
		Entry(nil, "/a/**", "/a", false),
		Entry(nil, "**/c*", "/a/b/conv1", true),
		Entry(nil, "**/c*", "/a/conv/1", false),
		Entry(nil, "**a*", "b/a/a1", true),
		Entry(nil, "?", "a", true),
		Entry(nil, "?", "/", false),
		Entry(nil, "?", "é", true),
		Entry(nil, "a?c", "ac", false),
		Entry(nil, "m[0]*", "m[0].w", true),
		Entry(nil, `\*`, `\x`, true),
		Entry(nil, "***", "a/b", true),
		Entry("not in exponential time", strings.Repeat("*a", 30)+"b", strings.Repeat("a", 60), false),
	)
})

const configText = `{
  "pins": [
    {"op": "Softmax", "backend": "reference"},
    {"node": "/decoder/**", "backend": "cpu", "exclude": true}
  ],
  "properties": [
    {"backend": "cpu", "property": "op-list", "name": "convs", "kind": "bounding", "min_nodes": 2, "max_nodes": 3,
     "except": {"names": ["b"]}, "options": {"ops": ["Conv", "Relu"]}},
    {"backend": "cpu", "property": "static-shape"},
    {"backend": "gpu", "property": "sequence", "only": {"ops": ["Conv", "Relu"]}, "options": {"ops": ["Conv", "Relu?", "Exp?"]}}
  ]
}
`

var _ = Describe("A configuration", func() {
	read := func(text string) (*property.Config, error) { return property.ReadConfig(strings.NewReader(text)) }

	It("holds pins and properties", func() {
		c, err := read(configText)
		Expect(err).NotTo(HaveOccurred())
		Expect(c.Pins).To(Equal([]property.Pin{{Op: "Softmax", Backend: "reference"}, {Node: "/decoder/**", Backend: "cpu", Exclude: true}}))
		Expect(c.Properties).To(HaveLen(2))
		cpu, gpu := c.Properties["cpu"], c.Properties["gpu"]
		Expect([]string{cpu[0].Name(), cpu[1].Name(), gpu[0].Name()}).To(Equal([]string{"convs", "static-shape", "sequence"}))
		Expect([]property.Kind{property.KindOf(cpu[0]), property.KindOf(cpu[1]), property.KindOf(gpu[0])}).
			To(Equal([]property.Kind{property.Bounding, property.Admitting, property.Atomic}))
		g := net("f", "a = Conv(x, w)", "b = Relu(a)", "c = Conv(b, w)", "d = Relu(c)", "e = Exp(d)", "f = Relu(e)")
		Expect(sets(g, cpu[0])).To(Equal([]string{"c d"}))
		Expect(sets(g, gpu[0])).To(Equal([]string{"a b", "c d"}))
	})

	It("may be empty", func() {
		c, err := read(" {} ")
		Expect(err).NotTo(HaveOccurred())
		Expect(c.Pins).To(BeEmpty())
	})

	DescribeTable("says where it is wrong",
		func(text, want string, causes ...error) {
			_, err := read(text)
			Expect(err).To(HaveOccurred())
			Expect(err.Error()).To(HavePrefix(want))
			var e *property.ConfigError
			Expect(errors.As(err, &e)).To(BeTrue())
			for _, cause := range append(causes, property.ErrConfig) {
				Expect(err).To(MatchError(cause))
			}
		},
		Entry("nothing", "", "line 1, column 1: unexpected end of JSON input"),
		Entry("not JSON", "{\n  pins\n}", "line 2, column 3: invalid character 'p' looking for beginning of object key string"),
		Entry("no object", "\n [1]", "line 2, column 2: expected an object"),
		Entry("null", "null", "line 1, column 1: expected an object"),
		Entry("more than an object", "{} {}", "line 1, column 4: invalid character '{' after top-level value"),
		Entry("unknown field", "{\n\"pin\": []}", `line 2, column 1: unknown field "pin"`),
		Entry("no list", `{"pins": {"op": "Neg"}}`, "line 1, column 10: pins: expected a list"),
		Entry("a list twice", `{"pins": [], "pins": []}`, "line 1, column 14: pins occurs twice"),
		Entry("no backend", "{\"pins\": [\n{\"op\": \"Neg\", \"backend\": \"cpu\"},\n  {\"op\": \"Abs\"}]}", "line 3, column 3: pins[1]: backend is missing"),
		Entry("a pin of nothing", `{"pins": [{"backend": "cpu"}]}`, "line 1, column 11: pins[0]: node or op has to be given"),
		Entry("a pin that is none", `{"pins": [7]}`, "line 1, column 11: pins[0]: found number, expected object"),
		Entry("wrong type", "{\"pins\": [{\"backend\": \"cpu\",\n \"op\": 3}]}", "line 2, column 8: pins[0].op: found number, expected string"),
		Entry("unknown field of a pin", `{"pins": [{"bakend": "cpu"}]}`, `line 1, column 11: pins[0]: bad property option: json: unknown field "bakend"`, property.ErrOption),
		Entry("unknown property", `{"properties": [{"backend": "cpu", "property": "magic"}]}`,
			`line 1, column 17: properties[0]: unknown property: "magic" (registered: min-benefit, `, property.ErrUnknown),
		Entry("no property", `{"properties": [{"backend": "cpu"}]}`, `line 1, column 17: properties[0]: property is missing`),
		Entry("no backend of a property", `{"properties": [{"property": "op-list"}]}`, `line 1, column 17: properties[0]: backend is missing`),
		Entry("no options", `{"properties": [{"backend": "cpu", "property": "op-list"}]}`,
			`line 1, column 17: properties[0]: property op-list: bad property option: ops is empty`, property.ErrOption),
		Entry("wrong options", `{"properties": [{"backend": "cpu", "property": "static-shape", "options": {"x": 1}}]}`,
			`line 1, column 17: properties[0]: property static-shape: bad property option: json: unknown field "x"`, property.ErrOption),
		Entry("wrong kind", `{"properties": [{"backend": "cpu", "property": "static-shape", "kind": "big"}]}`,
			`line 1, column 17: properties[0]: kind "big" is not atomic, bounding or admitting`),
		Entry("wrong bounds", `{"properties": [{"backend": "cpu", "property": "static-shape", "min_nodes": 3, "max_nodes": 2}]}`,
			`line 1, column 17: properties[0]: sets of 3 to 2 nodes`),
		Entry("two of a name", `{"properties": [{"backend": "cpu", "property": "static-shape"}, {"backend": "cpu", "property": "static-shape"}]}`,
			`line 1, column 65: properties[1]: two properties of cpu are named "static-shape"`),
	)

	It("is not read beyond its limit, and passes on errors of its reader", func() {
		_, err := property.ReadConfig(io.LimitReader(endless{}, 2*property.MaxConfig))
		Expect(err).To(MatchError(property.ErrConfig))
		broken := errors.New("broken")
		_, err = property.ReadConfig(iotest.ErrReader(broken))
		Expect(err).To(BeIdenticalTo(broken))
	})
})

// endless is a reader of blanks.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

var _ = Describe("The registry", func() {
	It("opens by name, lists sorted, and panics on what a programmer got wrong", func() {
		Expect(property.Registered()).To(ContainElements("min-benefit", "name-list", "op-list", "planned-shape", "sequence", "static-shape"))
		p, err := property.Open("name-list", []byte(`{"names": ["a*"]}`))
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Name()).To(Equal("name-list"))
		Expect(sets(net("a1, b", "a1 = Neg(x)", "b = Neg(x)"), p)).To(Equal([]string{"a1"}))
		p, err = property.Open("min-benefit", []byte(`{"per_node": 5, "least": 6}`))
		Expect(err).NotTo(HaveOccurred())
		_, why := p.(property.Reviewer).Review(net("a", "a = Neg(x)"))
		Expect(why).To(HaveOccurred())
		_, err = property.Open("sequence", []byte(`{"ops": ["Conv"]} x`))
		Expect(err).To(MatchError(property.ErrOption))
		_, err = property.Open("none", nil)
		Expect(err).To(MatchError(property.ErrUnknown))
		Expect(func() {
			property.Register("op-list", func(string, []byte) (property.SubgraphProperty, error) { return nil, nil })
		}).To(Panic())
		Expect(func() { property.Register("x", nil) }).To(Panic())
		property.Register("test-nothing", func(string, []byte) (property.SubgraphProperty, error) { return nil, nil })
		_, err = property.Open("test-nothing", nil)
		Expect(err).To(MatchError(property.ErrOption))
	})
})

// FuzzReadConfig checks that no text makes ReadConfig panic, and that its errors have a place.
func FuzzReadConfig(f *testing.F) {
	f.Add(configText)
	f.Add(`{"pins":[{"op":1}]}`)
	f.Add(`{"properties":[{"backend":"a","property":"sequence","options":{"ops":["Add?","Mul"]}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := property.ReadConfig(strings.NewReader(text))
		if err == nil {
			for backend, ps := range c.Properties {
				if backend == "" || len(ps) == 0 {
					t.Fatal("a property of nobody")
				}
			}
			return
		}
		var e *property.ConfigError
		if !errors.As(err, &e) || e.Line < 1 || e.Col < 1 {
			t.Fatalf("%v has no place", err)
		}
	})
}
