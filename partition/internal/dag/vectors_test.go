package dag_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/partition/internal/dag"
)

var _ = DescribeTable("Group keeps groups that could wait for each other apart",
	func(ctx SpecContext, text, colors string, connected, fewest string) {
		g, names, p := parse(text, colors)
		for _, disconnected := range []bool{false, true} {
			want := connected
			if disconnected {
				want = fewest
			}
			p.Policy = nil
			for range colors {
				p.Policy = append(p.Policy, dag.Policy{Disconnected: disconnected})
			}
			r, err := dag.Group(ctx, p)
			Expect(err).NotTo(HaveOccurred())
			Expect(dag.Verify(p, r)).To(Succeed())
			Expect(oracle(g, p, r)).To(BeEmpty())
			Expect(show(names, r)).To(Equal(want))
			Expect(r.Exhausted).To(BeFalse())
		}
	},
	// Groups that are convex each for itself and need each other. TVM's merging, whose dependency sets go stale, makes
	// {p1,p2} and {q1,q0,q2} of the first.
	Entry("two backends", fiveNodes, "PQ", "{q0} {p1,p2} {q1,q2}", "{q0} {p1,p2} {q1,q2}"),
	Entry("two backends, the other first", fiveNodes, "QP", "{p1} {q1,q0,q2} {p2}", "{p1} {q1,q0,q2} {p2}"),
	// MXNet makes {n1,n5} and {n0,n3}: neighbours that another subgraph has already are not looked at.
	Entry("one backend", sixNodes, "A", "{n1} {n0,n3} {n5}", "{n1,n0} {n3,n5}"),
	Entry("one backend around the other in one hop", sandwich, "AS", "{s1} {a0,a1} {s2}", "{s1} {a0,a1} {s2}"),
	Entry("the other around the one", sandwich, "SA", "{s1} {a0,a1} {s2}", "{s1} {a0,a1} {s2}"),
	// MXNet's search for a path has no visited set and gives up in the diamonds.
	Entry("a long way round behind diamonds", diamonds, "A", "{a} {a2}", "{a} {a2}"),

	// MXNet's unit tests.
	Entry("exp, sin and add without cos", "e=A; c=C(e); s=A(e); p=A(c,s)", "A", "{e,s} {p}", "{e,s} {p}"),
	Entry("exp, cos and add without sin", "e=A; c=A(e); s=S(e); p=A(c,s)", "A", "{e,c} {p}", "{e,c} {p}"),
	Entry("a long path outside", "s=A; c1=C(s); c2=C(c1); c3=C(c2); c4=C(c3); p=A(s,c4)", "A", "{s} {p}", "{s} {p}"),
	Entry("two inputs joined", "s1=A; s2=A; p=A(s1,s2); c1=C(p); c2=C(p); m=D(c1,c2)", "A", "{s1,s2,p}", "{s1,s2,p}"),
	Entry("batch normalisations behind it", "e=A; c=C(e); s=A(e); p=A(c,s); b0=A(p); b1=A(b0)", "A",
		"{e,s} {p,b0,b1}", "{e,s} {p,b0,b1}"),

	Entry("a diamond of one backend", "a=A; b=A(a); c=A(a); d=A(b,c)", "A", "{a,b,c,d}", "{a,b,c,d}"),
	Entry("a diamond with a hole", "a=A; b=B(a); c=A(a); d=A(b,c)", "A", "{a,c} {d}", "{a,c} {d}"),
	Entry("levels from the sources and from the sinks differ", "a=A; b=B(a); c=B(b); d=A(c); e=A(a); f=A(d,e)", "A",
		"{a,e} {d,f}", "{a,e} {d,f}"),
)

const (
	fiveNodes = "p1=P; q1=Q(p1); q0=Q; p2=P(p1,q0); q2=Q(q1,q0)"
	sixNodes  = "n1=A; n2=B(n1); n0=A; n3=A(n2,n0); n4=B(n0,n0); n5=A(n1,n4)"
	sandwich  = "a0=A; s1=S; a1=A(a0,s1); s2=S(a1,s1)"
	diamonds  = "x=I; y=I; a=A(x); b=B(a); c=B(y); d1=B(c); d2=B(c); d3=B(d1,d2); e1=B(d3); e2=B(d3); e3=B(e1,e2); j=B(b,e3); a2=A(a,j)"
)
