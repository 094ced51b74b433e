package main

import (
	"bytes"
	"regexp"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("mxnet-property", func() {
	It("prints groups and results before and after", func(ctx SpecContext) {
		var out bytes.Buffer
		Expect(run(ctx, &out)).To(Succeed())
		Expect(out.String()).To(And(ContainSubstring("without the property: 1 groups\n"), ContainSubstring("with the property: 3 groups\n")))
		numbers := regexp.MustCompile(`probabilities \[[^]]+\]`).FindAllString(out.String(), -1)
		Expect(numbers).To(HaveLen(2))
		Expect(numbers[0]).To(Equal(numbers[1]))
	})
})
