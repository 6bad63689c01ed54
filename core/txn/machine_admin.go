package txn

import (
	"slices"
	"strings"
	"time"

	"github.com/millstream-io/millstream/core/coordinator"
)

// describe answers DescribeTransactions for one id.
func (m *machine) describe(id string) Description {
	d := Description{TransactionalID: id, StartMS: -1, Producer: noProducer}
	tx := m.txns[id]
	if tx == nil {
		d.Code = coordinator.CodeTransactionalIDNotFound
		return d
	}
	d.Producer, d.State, d.TimeoutMS = tx.producer(), tx.State, tx.TimeoutMS
	d.StartMS, d.Partitions = tx.StartMS, tx.Partitions
	return d
}

// list answers ListTransactions.
func (m *machine) list(now time.Time, in ListRequest) ListResponse {
	var resp ListResponse
	for id, tx := range m.txns {
		runs := now.Sub(time.UnixMilli(tx.StartMS))
		switch {
		case in.NoState:
		case len(in.States) > 0 && !slices.Contains(in.States, tx.State):
		case len(in.ProducerIDs) > 0 && !slices.Contains(in.ProducerIDs, tx.ProducerID):
		case in.LongerThan >= 0 && runs <= in.LongerThan:
		case in.Match != nil && !in.Match(id):
		default:
			resp.Transactions = append(resp.Transactions, Listed{id, tx.ProducerID, tx.State})
		}
	}
	return resp
}

func sortListed(all []Listed) {
	slices.SortFunc(all, func(a, b Listed) int {
		return strings.Compare(a.TransactionalID, b.TransactionalID)
	})
}
