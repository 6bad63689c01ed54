package nexmark_test

import (
	"fmt"

	"github.com/millstream-io/millstream/examples/nexmark"
)

// winners are the winning bids by auction: the highest of those that came while it was open, of
// equal ones the first.
func winners(w *world) map[int64]*nexmark.Bid {
	best := map[int64]*nexmark.Bid{}
	for _, b := range w.bids { // they are in the order of time
		a := w.auctions[b.Auction]
		if a == nil || b.DateTime < a.DateTime || b.DateTime > a.Expires {
			continue
		}
		if have := best[a.ID]; have == nil || b.Price > have.Price {
			best[a.ID] = b
		}
	}
	return best
}

func q9(w *world) (rows []row) {
	for id, b := range winners(w) {
		a := w.auctions[id]
		rows = append(rows, row{"auction": id, "seller": a.Seller, "category": a.Category,
			"bidder": b.Bidder, "price": b.Price, "dateTime": b.DateTime})
	}
	return rows
}

// q4 is the last row of each category.
func q4(w *world) (rows []row) {
	sold, sum := map[int64]int64{}, map[int64]int64{}
	for id, b := range winners(w) {
		category := w.auctions[id].Category
		sold[category]++
		sum[category] += b.Price
	}
	for category, n := range sold {
		rows = append(rows, row{"category": fmt.Sprint(category), "sold": n,
			"mean": float64(sum[category]) / float64(n)})
	}
	return rows
}

func q5(w *world) (rows []row) {
	counts := map[int64]map[int64]int{} // of a window's start, by auction
	for _, b := range w.bids {
		for start := b.DateTime - b.DateTime%2000; start > b.DateTime-10_000; start -= 2000 {
			if counts[start] == nil {
				counts[start] = map[int64]int{}
			}
			counts[start][b.Auction]++
		}
	}
	for start, of := range counts {
		most := 0
		for _, n := range of {
			most = max(most, n)
		}
		for auction, n := range of {
			if n == most {
				rows = append(rows, row{"auction": fmt.Sprint(auction), "bids": n, "start": start})
			}
		}
	}
	return rows
}

func q7(w *world) (rows []row) {
	highest := map[int64]int64{} // by the end of the window
	for _, b := range w.bids {
		end := b.DateTime - b.DateTime%10_000 + 10_000
		highest[end] = max(highest[end], b.Price)
	}
	for end, price := range highest {
		for _, b := range w.bids {
			if b.Price == price && b.DateTime >= end-10_000 && b.DateTime <= end {
				rows = append(rows, row{"auction": b.Auction, "bidder": b.Bidder, "price": price,
					"dateTime": b.DateTime, "end": end})
			}
		}
	}
	return rows
}

func q8(w *world) (rows []row) {
	sold := map[int64]bool{}
	for _, a := range w.auctions {
		p := w.persons[a.Seller]
		start := a.DateTime - a.DateTime%10_000
		if p == nil || p.DateTime-p.DateTime%10_000 != start || sold[p.ID] {
			continue
		}
		sold[p.ID] = true
		rows = append(rows, row{"id": p.ID, "name": p.Name, "start": start})
	}
	return rows
}
