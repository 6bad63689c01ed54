package nexmark

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// The shape of the stream: of 50 events in turn 1 is a person, 3 are auctions, 46 are bids.
const (
	personShare  = 1
	auctionShare = 3
	totalShare   = 50
	firstID      = 1000 // of persons and auctions
	firstCat     = 10
	categories   = 5
	activePeople = 1000
	inFlight     = 100 // auctions that get bids
	idLead       = 10
	hotBatch     = 100
)

// Person is someone who sells or bids.
type Person struct {
	ID         int64  `json:"id"`
	Name       string `json:"name"`
	Email      string `json:"emailAddress"`
	CreditCard string `json:"creditCard"`
	City       string `json:"city"`
	State      string `json:"state"`
	DateTime   int64  `json:"dateTime"`
	Extra      string `json:"extra"`
}

// Auction is an item for sale.
type Auction struct {
	ID          int64  `json:"id"`
	ItemName    string `json:"itemName"`
	Description string `json:"description"`
	InitialBid  int64  `json:"initialBid"`
	Reserve     int64  `json:"reserve"`
	DateTime    int64  `json:"dateTime"`
	Expires     int64  `json:"expires"`
	Seller      int64  `json:"seller"`
	Category    int64  `json:"category"`
	Extra       string `json:"extra"`
}

// Bid is an offer for an item.
type Bid struct {
	Auction  int64  `json:"auction"`
	Bidder   int64  `json:"bidder"`
	Price    int64  `json:"price"`
	Channel  string `json:"channel"`
	URL      string `json:"url"`
	DateTime int64  `json:"dateTime"`
	Extra    string `json:"extra"`
}

// Generator makes the events of one stream.
type Generator struct {
	Seed uint64
	// Rate is events per second of event time; 0 is 10,000.
	Rate int64
	// Base is the event time of event 0, in ms; 0 is 2015-07-15T00:00:00Z, as in the original.
	Base int64
}

const originalBase = 1_436_918_400_000

// Time is the event time of event n in ms.
func (g Generator) Time(n int64) int64 {
	rate, base := g.Rate, g.Base
	if rate == 0 {
		rate = 10_000
	}
	if base == 0 {
		base = originalBase
	}
	return base + n*1000/rate
}

// Event is event n: a *Person, *Auction or *Bid.
func (g Generator) Event(n int64) any {
	r := rand.New(rand.NewPCG(g.Seed, uint64(n)))
	switch at := n % totalShare; {
	case at < personShare:
		return g.person(r, n)
	case at < personShare+auctionShare:
		return g.auction(r, n)
	}
	return g.bid(r, n)
}

// Record is event n for the log: the topic of its kind, its key (nil for bids, which spread over
// all partitions) and its JSON.
func (g Generator) Record(n int64) (topic string, key, value []byte) {
	e := g.Event(n)
	value, err := json.Marshal(e)
	if err != nil { // only numbers and strings are in it
		panic("invariant: an event can be marshalled: " + err.Error())
	}
	switch e := e.(type) {
	case *Person:
		return "persons", strconv.AppendInt(nil, e.ID, 10), value
	case *Auction:
		return "auctions", strconv.AppendInt(nil, e.ID, 10), value
	}
	return "bids", nil, value
}

// lastPerson and lastAuction are how many of them there are before event n, less one.
func lastPerson(n int64) int64 { return n / totalShare }

func lastAuction(n int64) int64 {
	epoch, at := n/totalShare, n%totalShare
	switch {
	case at < personShare:
		return max(0, epoch*auctionShare-1)
	case at >= personShare+auctionShare:
		return epoch*auctionShare + auctionShare - 1
	}
	return epoch*auctionShare + at - personShare
}

// somePerson is one of the active people, or one who will be there soon.
func somePerson(r *rand.Rand, n int64) int64 {
	people := lastPerson(n) + 1
	active := min(people, activePeople)
	return people - active + r.Int64N(active+idLead)
}

func price(r *rand.Rand) int64 { return int64(math.Round(math.Pow(10, r.Float64()*6) * 100)) }

// filler makes an event about as large as the original's.
func filler(r *rand.Rand, size, wanted int) string {
	left := max(0, wanted-size)
	left = left*4/5 + r.IntN(left*2/5+1)
	var b strings.Builder
	for range left {
		b.WriteByte(byte('a' + r.IntN(26)))
	}
	return b.String()
}

func pick(r *rand.Rand, list ...string) string { return list[r.IntN(len(list))] }

func (g Generator) person(r *rand.Rand, n int64) *Person {
	first := pick(r, "Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah",
		"Deiter", "Walter")
	last := pick(r, "Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones",
		"Noris")
	p := &Person{ID: lastPerson(n) + firstID, Name: first + " " + last,
		Email: strings.ToLower(first+"@"+last) + ".com",
		CreditCard: fmt.Sprintf("%04d %04d %04d %04d", r.IntN(10000), r.IntN(10000),
			r.IntN(10000), r.IntN(10000)),
		City: pick(r, "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend",
			"Redmond", "Seattle", "Kent", "Cheyenne"),
		State: pick(r, "AZ", "CA", "ID", "OR", "WA", "WY"), DateTime: g.Time(n)}
	p.Extra = filler(r, 100, 200)
	return p
}

func (g Generator) auction(r *rand.Rand, n int64) *Auction {
	a := &Auction{ID: lastAuction(n) + firstID, ItemName: filler(r, 0, 20),
		Description: filler(r, 0, 100), InitialBid: price(r), DateTime: g.Time(n),
		Category: firstCat + r.Int64N(categories)}
	a.Reserve = a.InitialBid + price(r)
	horizon := g.Time(n+inFlight*totalShare/auctionShare) - a.DateTime
	a.Expires = a.DateTime + 1 + r.Int64N(max(horizon*2, 1))
	if r.IntN(4) > 0 { // three of four are of a hot seller
		a.Seller = lastPerson(n)/hotBatch*hotBatch + firstID
	} else {
		a.Seller = somePerson(r, n) + firstID
	}
	a.Extra = filler(r, 240, 500)
	return a
}

func (g Generator) bid(r *rand.Rand, n int64) *Bid {
	b := &Bid{Price: price(r), DateTime: g.Time(n)}
	last := lastAuction(n)
	if r.IntN(2) > 0 { // one of two is for a hot auction
		b.Auction = last / hotBatch * hotBatch
	} else {
		least := max(last-inFlight, 0)
		b.Auction = least + r.Int64N(last-least+1+idLead)
	}
	b.Auction += firstID
	if r.IntN(4) > 0 { // three of four are of a hot bidder
		b.Bidder = lastPerson(n)/hotBatch*hotBatch + 1
	} else {
		b.Bidder = somePerson(r, n)
	}
	b.Bidder += firstID // once; the original adds it twice, so that few bidders are persons
	if r.IntN(2) > 0 {
		b.Channel = pick(r, "Google", "Facebook", "Baidu", "Apple")
		b.URL = "https://www.nexmark.com/" + strings.ToLower(b.Channel) + "/hot/item.htm?query=1"
	} else {
		c := r.IntN(10_000)
		b.Channel = fmt.Sprintf("channel-%d", c)
		b.URL = fmt.Sprintf("https://www.nexmark.com/%s/%s/%s/item.htm?query=1&channel_id=%d",
			filler(r, 0, 5), filler(r, 0, 5), filler(r, 0, 5), c)
	}
	b.Extra = filler(r, 60, 100)
	return b
}
