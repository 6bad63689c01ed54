// Command cutlink runs a broker and cuts the link to some of its clients, so that neither side gets a FIN or RST: the
// peer is gone without a word, as after a power cut, a pulled cable or a firewall that forgot a connection.
// .ci/faults/halfopen makes the network and runs it.
//
//	cutlink -binary MILLSTREAM -dir DIR -namespace NAME [-keepalive]
//
// It is in one network namespace, with the broker and with clients that stay: a producer and a consumer whose records
// are timed, and a member of a group of each protocol. NAME is the namespace at the other end of the interface "cut".
// There, in a process of its own (-beyond), are 200 idle connections, 10 readers in the middle of an answer, another
// member of each group, a producer that is idempotent and one with an open transaction. Then their end of the link
// goes down. It proves that the fault bit: as many connections as before are still ESTABLISHED at both ends, with
// bytes in flight that nobody acknowledges.
//
// It fails unless all of them are let go (idle ones by connections.max.idle.ms, readers by the 30 s within which the
// next part of an answer has to be taken), the partitions of dead members go to the living one after the session
// timeout, the transaction is aborted after its own, neither earlier, and descriptors, goroutines and memory are as
// before; unless all that time the clients that stay are served in time and without an error; and, when the link is
// back, unless the idempotent producer goes on with every record once and the open transaction cannot be committed.
//
// With -keepalive connections.max.idle.ms is off: idle connections are found dead by TCP's keepalive (after 15 s, nine
// probes 15 s apart), those with bytes in flight by the kernel's retries, of which the namespace has few.
package main
