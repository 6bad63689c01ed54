package nexmark_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millstream-io/millstream/examples/nexmark"
)

// oracles are the queries as plain calculations over all events: maps and loops, nothing of the
// engine.
var oracles = map[string]func(w *world) []row{
	"q0": perBid(func(b *nexmark.Bid) row {
		return row{"auction": b.Auction, "bidder": b.Bidder, "price": b.Price, "channel": b.Channel,
			"url": b.URL, "dateTime": b.DateTime, "extra": b.Extra}
	}),
	"q1": perBid(func(b *nexmark.Bid) row {
		return row{"auction": b.Auction, "bidder": b.Bidder, "price": float64(b.Price) * 0.908,
			"dateTime": b.DateTime, "extra": b.Extra}
	}),
	"q2": perBid(func(b *nexmark.Bid) row {
		if b.Auction%123 != 0 {
			return nil
		}
		return row{"auction": b.Auction, "price": b.Price}
	}),
	"q3": q3, "q4": q4, "q5": q5, "q7": q7, "q8": q8, "q9": q9, "q11": q11, "q12": q12,
	"q13": perBid(func(b *nexmark.Bid) row {
		return row{"auction": b.Auction, "bidder": b.Bidder, "price": b.Price,
			"dateTime": b.DateTime, "value": fmt.Sprintf("v%d", b.Auction%100)}
	}),
	"q14": perBid(q14), "q15": q15, "q16": q16, "q17": q17, "q18": q18, "q19": q19, "q20": q20,
	"q21": perBid(q21),
	"q22": perBid(func(b *nexmark.Bid) row {
		dir := strings.Split(b.URL, "/")
		return row{"auction": b.Auction, "bidder": b.Bidder, "dir1": dir[3], "dir2": dir[4],
			"dir3": dir[5]}
	}),
}

func perBid(fn func(*nexmark.Bid) row) func(*world) []row {
	return func(w *world) (rows []row) {
		for _, b := range w.bids {
			if r := fn(b); r != nil {
				rows = append(rows, r)
			}
		}
		return rows
	}
}

func q3(w *world) (rows []row) {
	for _, a := range w.auctions {
		p := w.persons[a.Seller]
		if a.Category == 10 && p != nil && slices.Contains([]string{"OR", "ID", "CA"}, p.State) {
			rows = append(rows, row{"name": p.Name, "city": p.City, "state": p.State, "id": a.ID})
		}
	}
	return rows
}

// grouped are bids by key and start of their window.
type grouped[K comparable] map[K]map[int64][]*nexmark.Bid

// group puts bids together by a key and their window of so many ms.
func group[K comparable](w *world, size int64, key func(*nexmark.Bid) K) grouped[K] {
	out := grouped[K]{}
	for _, b := range w.bids {
		k := key(b)
		if out[k] == nil {
			out[k] = map[int64][]*nexmark.Bid{}
		}
		start := b.DateTime - b.DateTime%size
		out[k][start] = append(out[k][start], b)
	}
	return out
}

// each calls fn for every group.
func each[K comparable](groups grouped[K], fn func(k K, bids []*nexmark.Bid) row) []row {
	var rows []row
	for k, windows := range groups {
		for _, bids := range windows {
			rows = append(rows, fn(k, bids))
		}
	}
	return rows
}

const day = int64(24 * time.Hour / time.Millisecond)

func q11(w *world) (rows []row) {
	last, count := map[int64]int64{}, map[int64]int{}
	emit := func(bidder int64) {
		rows = append(rows, row{"bidder": fmt.Sprint(bidder), "bids": count[bidder]})
	}
	for _, b := range w.bids { // they are in the order of time
		if at, ok := last[b.Bidder]; ok && b.DateTime-at > 10_000 {
			emit(b.Bidder)
			count[b.Bidder] = 0
		}
		last[b.Bidder] = b.DateTime
		count[b.Bidder]++
	}
	for bidder := range count {
		emit(bidder)
	}
	return rows
}

func q12(w *world) []row {
	by := func(b *nexmark.Bid) int64 { return b.Bidder }
	return each(group(w, 10_000, by), func(bidder int64, bids []*nexmark.Bid) row {
		return row{"bidder": fmt.Sprint(bidder), "bids": len(bids)}
	})
}

func q14(b *nexmark.Bid) row {
	price := float64(b.Price) * 0.908
	if price <= 1000000 || price >= 50000000 {
		return nil
	}
	kind := "otherTime"
	switch h := time.UnixMilli(b.DateTime).UTC().Hour(); {
	case h >= 8 && h <= 18:
		kind = "dayTime"
	case h <= 6 || h >= 20:
		kind = "nightTime"
	}
	return row{"auction": b.Auction, "bidder": b.Bidder, "price": price, "time": kind,
		"dateTime": b.DateTime, "c": strings.Count(b.Extra, "c")}
}

// ranks counts bids by three ranges of prices.
func ranks(bids []*nexmark.Bid) row {
	var n [3]int
	for _, b := range bids {
		switch {
		case b.Price < 10000:
			n[0]++
		case b.Price < 1000000:
			n[1]++
		default:
			n[2]++
		}
	}
	return row{"bids": len(bids), "rank1": n[0], "rank2": n[1], "rank3": n[2]}
}

func distinct(bids []*nexmark.Bid, of func(*nexmark.Bid) int64) int {
	seen := map[int64]bool{}
	for _, b := range bids {
		seen[of(b)] = true
	}
	return len(seen)
}

func bidderOf(b *nexmark.Bid) int64  { return b.Bidder }
func auctionOf(b *nexmark.Bid) int64 { return b.Auction }

func q15(w *world) []row {
	all := func(*nexmark.Bid) string { return "" }
	return each(group(w, day, all), func(_ string, bids []*nexmark.Bid) row {
		r := ranks(bids)
		r["bidders"], r["auctions"] = distinct(bids, bidderOf), distinct(bids, auctionOf)
		cheap := slices.DeleteFunc(slices.Clone(bids), func(b *nexmark.Bid) bool {
			return b.Price >= 10000
		})
		r["cheap"] = distinct(cheap, bidderOf)
		return r
	})
}

func q16(w *world) []row {
	by := func(b *nexmark.Bid) string { return b.Channel }
	return each(group(w, day, by), func(channel string, bids []*nexmark.Bid) row {
		r := ranks(bids)
		r["channel"] = channel
		r["bidders"], r["auctions"] = distinct(bids, bidderOf), distinct(bids, auctionOf)
		return r
	})
}

func q17(w *world) []row {
	return each(group(w, day, auctionOf), func(auction int64, bids []*nexmark.Bid) row {
		r := ranks(bids)
		low, high, total := bids[0].Price, int64(0), int64(0)
		for _, b := range bids {
			low, high, total = min(low, b.Price), max(high, b.Price), total+b.Price
		}
		r["auction"], r["low"], r["high"], r["total"] = fmt.Sprint(auction), low, high, total
		r["mean"] = float64(total) / float64(len(bids))
		return r
	})
}

func q18(w *world) []row {
	by := func(b *nexmark.Bid) string { return fmt.Sprintf("%d/%d", b.Bidder, b.Auction) }
	return each(group(w, day, by), func(who string, bids []*nexmark.Bid) row {
		last := bids[len(bids)-1]
		return row{"who": who, "price": last.Price, "dateTime": last.DateTime}
	})
}

func q19(w *world) []row {
	return each(group(w, day, auctionOf), func(auction int64, bids []*nexmark.Bid) row {
		var prices []int64
		for _, b := range bids {
			prices = append(prices, b.Price)
		}
		slices.Sort(prices)
		slices.Reverse(prices)
		return row{"auction": fmt.Sprint(auction), "prices": prices[:min(10, len(prices))]}
	})
}

func q20(w *world) (rows []row) {
	for _, b := range w.bids {
		if a := w.auctions[b.Auction]; a != nil && a.Category == 10 {
			rows = append(rows, row{"auction": b.Auction, "bidder": b.Bidder, "price": b.Price,
				"item": a.ItemName, "seller": a.Seller})
		}
	}
	return rows
}

func q21(b *nexmark.Bid) row {
	id := map[string]string{"Apple": "0", "Google": "1", "Facebook": "2", "Baidu": "3"}[b.Channel]
	if id == "" {
		_, id, _ = strings.Cut(b.URL, "channel_id=")
	}
	return row{"auction": b.Auction, "bidder": b.Bidder, "price": b.Price, "channel": b.Channel,
		"channel_id": id}
}
