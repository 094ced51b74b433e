package memplan_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/memplan"
)

var _ = Describe("CSV", func() {
	DescribeTable("reading", func(text string, want []memplan.Buffer) {
		got, err := memplan.ReadCSV(strings.NewReader(text))
		Expect(err).NotTo(HaveOccurred())
		Expect(got).To(BeComparableTo(want))
	},
		Entry("MiniMalloc's columns", "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\n",
			[]memplan.Buffer{{ID: "b1", Lower: 0, Upper: 3, Size: 4}, {ID: "b2", Lower: 3, Upper: 9, Size: 4}}),
		Entry("any order and unknown columns", "size,note,upper,id,lower\r\n4,x,3,b,-1\r\n",
			[]memplan.Buffer{{ID: "b", Lower: -1, Upper: 3, Size: 4}}),
		Entry("alignment, gaps and offset", "id,lower,upper,size,alignment,gaps,offset\na,0,9,4,8,1-2 5-7,16\nb,0,9,4,,,\n",
			[]memplan.Buffer{
				{ID: "a", Upper: 9, Size: 4, Align: 8, Gaps: []memplan.Interval{{Lower: 1, Upper: 2}, {Lower: 5, Upper: 7}}, Fixed: true, Offset: 16},
				{ID: "b", Upper: 9, Size: 4}}),
		Entry("inclusive ends", "buffer,start,end,size,gaps\na,0,9,4,1-2\n",
			[]memplan.Buffer{{ID: "a", Upper: 10, Size: 4, Gaps: []memplan.Interval{{Lower: 1, Upper: 3}}}}),
		Entry("negative times in gaps", "id,lower,upper,size,gaps\na,-9,9,4,-7--5\n",
			[]memplan.Buffer{{ID: "a", Lower: -9, Upper: 9, Size: 4, Gaps: []memplan.Interval{{Lower: -7, Upper: -5}}}}),
		Entry("blank lines and a byte order mark", "\ufeffid,lower,upper,size\n\na,0,1,2\n \n",
			[]memplan.Buffer{{ID: "a", Upper: 1, Size: 2}}),
		Entry("quoted ids", "id,lower,upper,size\n\"a,\"\"b\",0,1,2\n",
			[]memplan.Buffer{{ID: `a,"b`, Upper: 1, Size: 2}}),
		Entry("only a header", "id,lower,upper,size\n", nil),
	)

	DescribeTable("faults", func(text string, line int, field string) {
		_, err := memplan.ReadCSV(strings.NewReader(text))
		var fault *memplan.InputError
		Expect(errors.As(err, &fault)).To(BeTrue(), "%v", err)
		Expect(fault.Line).To(Equal(line), "%v", err)
		Expect(fault.Field).To(Equal(field), "%v", err)
	},
		Entry("empty file", "", 1, ""),
		Entry("missing column", "id,lower,upper\n", 1, "size"),
		Entry("column twice", "id,lower,begin,upper,size\n", 1, "lower"),
		Entry("too few cells", "id,lower,upper,size\na,0,1\n", 2, ""),
		Entry("no number", "id,lower,upper,size\na,0,1,2\nb,0,x,2\n", 3, "upper"),
		Entry("number too large", "id,lower,upper,size\na,0,1,9223372036854775808\n", 2, "size"),
		Entry("inclusive end too large", "id,lower,end,size\na,0,9223372036854775807,1\n", 2, "upper"),
		Entry("negative size", "id,lower,upper,size\na,0,1,-1\n", 2, "size"),
		Entry("inverted lifetime", "id,lower,upper,size\na,1,0,1\n", 2, "lifetime"),
		Entry("id twice", "id,lower,upper,size\na,0,1,1\n\na,0,1,1\n", 4, "id"),
		Entry("no id", "id,lower,upper,size\n,0,1,1\n", 2, "id"),
		Entry("alignment of zero", "id,lower,upper,size,alignment\na,0,1,1,0\n", 2, "alignment"),
		Entry("alignment of three", "id,lower,upper,size,alignment\na,0,1,1,3\n", 2, "alignment"),
		Entry("window", "id,lower,upper,size,gaps\na,0,9,1,1-2@0:1\n", 2, "gaps"),
		Entry("half a gap", "id,lower,upper,size,gaps\na,0,9,1,1-\n", 2, "gaps"),
		Entry("no gap", "id,lower,upper,size,gaps\na,0,9,1,12\n", 2, "gaps"),
		Entry("gap outside", "id,lower,upper,size,gaps\na,0,9,1,8-10\n", 2, "gaps"),
		Entry("broken quotes", "id,lower,upper,size\na,0,1,1\n\"b,0,1,1\n", 3, ""),
	)

	It("passes on errors of the reader", func() {
		_, err := memplan.ReadCSV(iotest.ErrReader(os.ErrPermission))
		Expect(err).To(MatchError(os.ErrPermission))
	})

	It("writes what it reads", func() {
		bufs := []memplan.Buffer{
			{ID: "a", Upper: 9, Size: 4, Align: 8, Gaps: []memplan.Interval{{Lower: 1, Upper: 2}}},
			{ID: "b, c", Lower: -4, Upper: 9, Size: 4, Align: 1, Fixed: true, Offset: 7},
		}
		var out bytes.Buffer
		Expect(memplan.WriteCSV(&out, bufs, nil)).To(Succeed())
		again, err := memplan.ReadCSV(&out)
		Expect(err).NotTo(HaveOccurred())
		Expect(again).To(BeComparableTo(bufs))
	})

	It("adds offsets, and indices where ids are missing", func() {
		var out bytes.Buffer
		Expect(memplan.WriteCSV(&out, []memplan.Buffer{buf(4, 0, 2), buf(4, 1, 3)}, []int64{0, 4})).To(Succeed())
		Expect(out.String()).To(Equal("id,lower,upper,size,offset\n0,0,2,4,0\n1,1,3,4,4\n"))
	})

	It("refuses offsets that are too few", func() {
		Expect(memplan.WriteCSV(&bytes.Buffer{}, []memplan.Buffer{buf(4, 0, 2)}, []int64{})).
			To(BeAssignableToTypeOf(&memplan.InputError{}))
	})
})

// benchmarks returns the paths of published instances that match a pattern,
// and skips where they are not at hand.
func benchmarks(skip func(string, ...int), pattern string) []string {
	paths, _ := filepath.Glob(filepath.Join("..", "..", "shared", "memplan-benchmarks", pattern))
	if len(paths) == 0 {
		skip("the published instances " + pattern + " are not at hand")
	}
	return paths
}

// readFile reads the buffers of a CSV file.
func readFile(path string) ([]memplan.Buffer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return memplan.ReadCSV(f)
}

func FuzzReadCSV(f *testing.F) {
	f.Add("id,lower,upper,size\nb1,0,3,4\n")
	f.Add("id,lower,upper,size,alignment,gaps,offset\na,0,9,4,8,1-2 5-7,16\n")
	f.Add("buffer,start,end,size,gaps\na,0,9,4,-1--2@0:4\n")
	f.Fuzz(func(t *testing.T, text string) {
		bufs, err := memplan.ReadCSV(strings.NewReader(text))
		if err != nil {
			var fault *memplan.InputError
			if !errors.As(err, &fault) || fault.Line < 1 {
				t.Fatalf("error without a line: %v", err)
			}
			return
		}
		var out bytes.Buffer
		if err := memplan.WriteCSV(&out, bufs, nil); err != nil {
			t.Fatal(err)
		}
		again, err := memplan.ReadCSV(&out)
		if err != nil || len(again) != len(bufs) {
			t.Fatalf("read %d buffers of %d again: %v", len(again), len(bufs), err)
		}
	})
}
