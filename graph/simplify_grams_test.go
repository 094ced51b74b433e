package graph_test

import . "github.com/onsi/ginkgo/v2"

var _ = Describe("Simplify, of n-grams that are weighed behind their count,", func() {
	const counts = "max_gram_length=2, max_skip_count=0, min_gram_length=1, mode=\"TF\", ngram_counts=[0, 2], ngram_indexes=[1, 0, 1], pool_int64s=[0, 1, 0, 1]"
	model := func(attrs, factors, op string) string {
		return `
  input %x: i64[N,7]
  const %f = ` + factors + `
  %t = TfIdfVectorizer(%x; ` + attrs + `) "t"
  %y = ` + op + ` "y"
  output %y
`
	}
	kept := func(attrs, factors, op string) string {
		return `
  input %x: i64[N,7]
  const %f = ` + factors + `
  %t: f32[N,2] = TfIdfVectorizer(%x; ` + attrs + `) "t"
  %y: f32[N,2] = ` + op + ` "y"
  output %y
`
	}
	weighed := func(mode string) string {
		return `
  input %x: i64[N,7]
  %y: f32[N,2] = TfIdfVectorizer(%x; max_gram_length=2, max_skip_count=0, min_gram_length=1, mode="` + mode + `", ngram_counts=[0, 2], ngram_indexes=[1, 0, 1], pool_int64s=[0, 1, 0, 1], weights=[3.0, 2.0, 3.0]) "t" from("t", "y")
  output %y
`
	}
	idf := func(weights string) string {
		return "max_gram_length=2, max_skip_count=0, min_gram_length=1, mode=\"IDF\", ngram_counts=[0, 2], ngram_indexes=[1, 0, 1], pool_int64s=[0, 1, 0, 1], weights=" + weights
	}
	DescribeTable("has the vectorizer weigh them", simplifiesTo,
		Entry("counts", 13, model(counts, "f32[2]{2, 3}", "Mul(%t, %f)"), weighed("TFIDF"), ""),
		Entry("the factors first, as a row", 13, model(counts, "f32[1,2]{2, 3}", "Mul(%f, %t)"), weighed("TFIDF"), ""),
		Entry("with weights of 1", 13, model(idf("[1.0, 1.0, 1.0]"), "f32[2]{2, 3}", "Mul(%t, %f)"), weighed("IDF"), ""),
		Entry("but not with others", 13, model(idf("[1.0, 2.0, 1.0]"), "f32[2]{2, 3}", "Mul(%t, %f)"), kept(idf("[1.0, 2.0, 1.0]"), "f32[2]{2, 3}", "Mul(%t, %f)"), ""),
		Entry("but not by numbers below zero", 13, model(counts, "f32[2]{-2, 3}", "Mul(%t, %f)"), kept(counts, "f32[2]{-2, 3}", "Mul(%t, %f)"), ""),
		Entry("but not by one for all", 13, model(counts, "f32[1]{2}", "Mul(%t, %f)"), kept(counts, "f32[1]{2}", "Mul(%t, %f)"), ""),
		Entry("but not what divides them", 13, model(counts, "f32[2]{2, 4}", "Div(%t, %f)"), kept(counts, "f32[2]{2, 4}", "Div(%t, %f)"), ""),
	)

	It("gives the same results", func() {
		for _, factors := range []string{"f32[2]{2.3, 0.7}", "f32[1,2]{0, 1e30}", "f32[2]{-1, 3}"} {
			sameResults(parse(statements(13, model(counts, factors, "Mul(%t, %f)"))), 0)
			sameResults(parse(statements(13, model(idf("[1.0, 1.0, 1.0]"), factors, "Mul(%f, %t)"))), 0)
		}
	})
})
