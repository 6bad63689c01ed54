package expression

import (
	"strings"
	"testing"

	"github.com/millstream-io/millstream/core/record"
)

// event is 195 bytes of JSON with nine members, a nested object and a list among them.
const event = `{"id":184467,"at":"2026-03-01T12:34:56Z","user":"u-104233","country":"DE",` +
	`"price":12.5,"qty":17,"tags":["new","promo"],"to":{"city":"Berlin","zip":"10115"},` +
	`"note":"leave at the door please, thanks a lot"}`

const predicate = `value.price * value.qty > 100 && value.country == "DE"`

// events is the event with other numbers, so that no cache of equal fields helps all of them.
func events() [][]byte {
	out := make([][]byte, 256)
	for i := range out {
		e := []byte(event)
		put := func(after string, digits ...byte) {
			copy(e[strings.Index(event, after)+len(after):], digits)
		}
		put(`"id":18446`, byte('0'+i%10))
		put(`"user":"u-10423`, byte('0'+i%10))
		put(`"price":`, byte('1'+i%9), byte('0'+i/7%10))
		put(`"qty":`, byte('1'+i/3%9), byte('0'+i%10))
		out[i] = e
	}
	return out
}

func benchSet(b *testing.B, source string, want Want) (*Program, *Env) {
	set := NewSet(&Scope{Key: Doc{Format: FormatString}})
	p, issues := set.Compile(source, want)
	if p == nil {
		b.Fatal(issues)
	}
	return p, set.NewEnv(EnvOptions{})
}

// BenchmarkFilter is the filter of the performance bars. valid=false also proves that the whole
// value is JSON; valid=true is a later step, which may stop at the last field it needs.
func BenchmarkFilter(b *testing.B) {
	for name, valid := range map[string]bool{"valid=false": false, "valid=true": true} {
		b.Run(name, func(b *testing.B) {
			p, e := benchSet(b, predicate, WantBool)
			list, rec, i, kept := events(), Record{}, 0, 0
			b.ReportAllocs()
			b.SetBytes(int64(len(event)))
			for b.Loop() {
				rec.Value, rec.ValueValid = list[i&255], valid
				i++
				e.Reset(&rec)
				keep, err := p.Bool(e)
				if err != nil {
					b.Fatal(err)
				}
				if keep {
					kept++
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrec/s")
		})
	}
}

// BenchmarkFilterVM is the same filter by the VM alone: what expressions cost that typed code does
// not have.
func BenchmarkFilterVM(b *testing.B) {
	p, e := benchSet(b, predicate, WantBool)
	p.code = nil
	list, rec, i := events(), Record{}, 0
	b.ReportAllocs()
	for b.Loop() {
		rec.Value, rec.ValueValid = list[i&255], false
		i++
		e.Reset(&rec)
		if _, err := p.Bool(e); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrec/s")
}

func BenchmarkProject(b *testing.B) {
	p, e := benchSet(b, `{"id": value.id, "city": value.to.city, "tags": value.tags,
		"total": value.price * value.qty}`, WantAny)
	list, rec, i := events(), Record{}, 0
	var out []byte
	var err error
	b.ReportAllocs()
	for b.Loop() {
		rec.Value, rec.ValueValid = list[i&255], true
		i++
		e.Reset(&rec)
		if out, err = p.AppendJSON(out[:0], e); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrec/s")
}

func BenchmarkKeyPath(b *testing.B) {
	set := NewSet(&Scope{Key: Doc{Format: FormatString}, Rows: []Row{{Name: "airport"}}})
	p, _ := set.Compile("airport.state", WantAny)
	e := set.NewEnv(EnvOptions{})
	rec := Record{RowsValid: true, Headers: []record.Header{{Key: RowHeader("airport"),
		Value: []byte(`{"iata":"SAN","name":"San Diego","city":"San Diego","state":"CA"}`)}}}
	var key []byte
	b.ReportAllocs()
	for b.Loop() {
		e.Reset(&rec)
		key, _, _ = p.AppendKey(key[:0], e)
	}
}

func BenchmarkDecode(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(event)))
	for b.Loop() {
		if _, err := DecodeJSON([]byte(event)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		NewSet(&Scope{}).Compile(predicate, WantBool)
	}
}

// BenchmarkValid is the check of a whole value alone.
func BenchmarkValid(b *testing.B) {
	list, i := events(), 0
	b.SetBytes(int64(len(event)))
	for b.Loop() {
		if err := Valid(list[i&255]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}
