package property_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

var _ = It("graphs that are nil, and zero values, say nothing", func() {
	Expect(property.KeepAll(nil)).To(BeEmpty())
	Expect(property.Accept(nil).Keep).To(BeEmpty())
	Expect((&property.Match{}).Root()).To(BeNil())
	Expect((&property.ConfigError{}).Error()).To(ContainSubstring("bad property configuration"))
	every := property.Nodes("every", func(*graph.Node) *property.Reason { return nil })
	Expect(property.Sets(nil, nil, every, nil, nil, nil)).To(MatchError(graph.ErrNil)) //nolint:staticcheck // a context that is nil never ends
})
