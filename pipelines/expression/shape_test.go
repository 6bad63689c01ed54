package expression

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shapeDocument wants some paths of the event, of other records, and some that are nowhere.
func shapeDocument(paths ...string) *document {
	set := NewSet(&Scope{})
	for _, p := range paths {
		if _, issues := set.Compile(p, WantAny); len(issues) > 0 {
			panic(fmt.Sprint(issues))
		}
	}
	return set.docs[0]
}

var shapePaths = []string{"value.price", "value.to.city", "value.tags", "value.a.b", "value.d",
	"value.country"}

// bothWays reads data as a document that remembers shapes and as the scanner alone does: spans and
// error must be the same.
func bothWays(t *testing.T, d *docState, spec *document, data []byte, validate bool) {
	t.Helper()
	var fast, plain scanner
	d.data = data
	err := d.read(&fast, spec, validate)
	plain.spans = make([]span, len(d.spans))
	want := plain.run(data, spec.tree, spec.wanted, validate)
	require.Equal(t, want, err, "%q", data)
	if want != nil {
		return
	}
	for id, at := range plain.spans {
		got := d.spans[id]
		if at.end == 0 { // an object the walk ended in: its kind is all that is asked
			require.Equal(t, at.kind, got.kind, "path %d of %q", id, data)
			continue
		}
		require.Equal(t, at, got, "path %d of %q", id, data)
	}
}

func newShapeState(spec *document) *docState { return &docState{spans: make([]span, spec.count+1)} }

// mutate changes a text a little: often it stays valid, often its shape is another.
func mutate(r *rand.Rand, text string) string {
	b := []byte(text)
	for range 1 + r.IntN(3) {
		if len(b) == 0 {
			return "{}"
		}
		i := r.IntN(len(b))
		switch r.IntN(6) {
		case 0:
			b[i] = `0123456789eE.+-"\{}[],: tfné`[r.IntN(28)]
		case 1:
			b = slices.Delete(b, i, i+1)
		case 2:
			b = slices.Insert(b, i, []byte(`17.5e-"\u00e9 ü`)[r.IntN(15)])
		case 3:
			old := []string{`"DE"`, `12.5`, `17`, `"Berlin"`, `["new","promo"]`, `184467`, `{"b":1}`}
			new := []string{`null`, `true`, `-0`, `1e9`, `"Zürich"`, `"a\"b\\"`, `[]`, `[[1],{"x":2}]`,
				`{"b":2}`, `9223372036854775808`, `01`, `"` + strings.Repeat("x", 40) + `"`, `-1.25E+7`}
			b = []byte(strings.Replace(string(b), old[r.IntN(len(old))], new[r.IntN(len(new))], 1))
		case 4:
			b = []byte(strings.Replace(string(b), `,"qty":17`, ``, 1))
		default:
			b = b[:len(b)-r.IntN(2)]
		}
	}
	return string(b)
}

func TestShapesReadWhatTheScannerReads(t *testing.T) {
	base := append([]string{event, event, event, `{"a":{"b":1},"d":2,"price":1}`,
		`{"d":"x","to":{"city":null},"a":{}}`}, jsonSeeds...)
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 9))
		spec := shapeDocument(shapePaths[:r.IntN(len(shapePaths)+1)]...)
		d := newShapeState(spec)
		for range 200 {
			text := base[r.IntN(len(base))]
			if r.IntN(2) == 0 {
				text = mutate(r, text)
			}
			validate := r.IntN(3) > 0
			if !validate && Valid([]byte(text)) != nil {
				continue
			}
			bothWays(t, d, spec, []byte(text), validate)
		}
	}
}

func FuzzShapes(f *testing.F) {
	for i, seed := range jsonSeeds {
		f.Add(event, seed, jsonSeeds[(i+7)%len(jsonSeeds)])
		f.Add(seed, seed+" ", strings.Replace(seed, "1", "2", 1))
	}
	f.Fuzz(func(t *testing.T, a, b, c string) {
		spec := shapeDocument(shapePaths...)
		d := newShapeState(spec)
		for _, text := range []string{a, b, a, c, b, c} {
			bothWays(t, d, spec, []byte(text), true)
		}
	})
}

// TestShapesAreUsed: were they not, nothing above would prove anything, and records that take turns
// in a few shapes must not be read twice.
func TestShapesAreUsed(t *testing.T) {
	spec := shapeDocument(shapePaths...)
	d := newShapeState(spec)
	kinds := []string{event, strings.Replace(event, `"qty":17,`, ``, 1), `{"a":{"b":[1,2]},"d":"x"}`}
	for range 100 {
		for _, text := range kinds {
			bothWays(t, d, spec, []byte(text), true)
		}
	}
	require.LessOrEqual(t, d.shapes.missed, 8)
	require.Len(t, d.shapes.list, len(kinds))
	var s scanner
	s.spans = d.spans
	for _, other := range []string{strings.Replace(event, `17`, `-3.5e2`, 1),
		strings.Replace(event, `"new","promo"`, ``, 1), strings.Replace(event, `"DE"`, `null`, 1)} {
		require.True(t, d.shapes.fits(&s, []byte(other), true), other)
	}
	require.False(t, d.shapes.fits(&s, []byte(event+" x"), true))
}

// TestShapesOfEverythingElseCostLittle: records of ever other keys are tried seldom, and learned
// from seldom.
func TestShapesOfEverythingElseCostLittle(t *testing.T) {
	spec := shapeDocument(shapePaths...)
	d := newShapeState(spec)
	for i := range 100_000 {
		d.data = fmt.Appendf(nil, `{"k%d":1}`, i)
		require.NoError(t, d.read(&scanner{}, spec, true))
	}
	require.LessOrEqual(t, len(d.shapes.list), maxShapes)
	require.Greater(t, d.shapes.cold, coldAfter)
	require.Zero(t, testing.AllocsPerRun(500, func() { _ = d.read(&scanner{}, spec, true) }))
}

func TestScanningAllocatesNothing(t *testing.T) {
	spec := shapeDocument("value.price", "value.country")
	d := newShapeState(spec)
	var s scanner
	list, i := events(), 0
	read := func() {
		d.data = list[i&255]
		i++
		if err := d.read(&s, spec, true); err != nil {
			t.Fatal(err)
		}
	}
	read()
	require.Zero(t, testing.AllocsPerRun(1000, read))
}
