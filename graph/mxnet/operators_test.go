package mxnet_test

import (
	"fmt"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/mxnet"
)

// table is the list of operators as the package's documentation has it.
func table() string {
	var b strings.Builder
	line := func(words []string) {
		text := "//	"
		for i, w := range words {
			if i < len(words)-1 {
				w += ","
			}
			if len(text)+len(w) > 125 {
				b.WriteString(strings.TrimRight(text, " ") + "\n")
				text = "//	"
			}
			text += w + " "
		}
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	for _, kind := range []mxnet.Support{mxnet.Standard, mxnet.Own, mxnet.Refused} {
		reasons := map[string][]string{}
		var order []string
		for _, x := range mxnet.Operators() {
			if x.Support != kind {
				continue
			}
			if reasons[x.Reason] == nil {
				order = append(order, x.Reason)
			}
			reasons[x.Reason] = append(reasons[x.Reason], x.Name)
		}
		for _, r := range order {
			head := kind.String()
			if r != "" {
				head += ": " + r
			}
			fmt.Fprintf(&b, "//	%s\n//\n", head)
			line(reasons[r])
			b.WriteString("//\n")
		}
	}
	return b.String()
}

var _ = Describe("the documentation", func() {
	It("says of every operator what becomes of it", func() {
		text, err := os.ReadFile("doc.go")
		Expect(err).NotTo(HaveOccurred())
		const begin, end = "in the order of the alphabet:\n//\n", "// What was compared"
		at, to := strings.Index(string(text), begin)+len(begin), strings.Index(string(text), end)
		Expect(at).To(BeNumerically("<", to))
		if *update {
			Expect(os.WriteFile("doc.go", []byte(string(text[:at])+table()+string(text[to:])), 0o644)).To(Succeed())
			return
		}
		Expect(string(text[at:to])).To(Equal(table()), "go test ./graph/mxnet -update writes it anew")
	})
})
