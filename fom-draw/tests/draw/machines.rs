//! The machines that the tests draw.

use fom_runtime::machine::{Deadline, Graph, PhaseInfo};

/// The call of the session router.
pub(crate) static STAGE: Graph = Graph::new(
    "Stage",
    "Call",
    "The phases of a call.",
    &[
        PhaseInfo::asynchronous(
            "Locate",
            "Asks the locator where the called user can be reached.",
        )
        .to(&[1, 3])
        .start()
        .timed(Deadline::new().within_nanos(2_000_000_000).late()),
        PhaseInfo::asynchronous("Ring", "Rings everywhere.\n\nMore.")
            .to(&[2, 3])
            .on(&["Request", "Ack", "Cancel", "Response"]),
        PhaseInfo::asynchronous("Talk", "The two sides talk.")
            .to(&[2, 3])
            .on(&["Request", "Ack", "Cancel", "Response"])
            .timed(Deadline::new().within_nanos(43_200_000_000_000).late()),
        PhaseInfo::blocking("Record", "Writes the call detail record.").to(&[4]),
        PhaseInfo::asynchronous("Linger", "The call is over.")
            .to(&[0, 5, 6, 7])
            .on(&["Request", "Ack", "Cancel", "Response"]),
        PhaseInfo::end("Completed", "A place answered, and later one side hung up."),
        PhaseInfo::end("Cancelled", "The caller gave up."),
        PhaseInfo::end("Rejected", "There was no call.").failure(),
    ],
);

/// Failure edges, named edges, retries, an edge back and one to itself.
pub(crate) static PAYMENT: Graph = Graph::new(
    "Paying",
    "Payment",
    "",
    &[
        PhaseInfo::synchronous("Check", "")
            .to(&[1, 5])
            .edges(&["valid", "no money & <no> \"credit\""])
            .start(),
        PhaseInfo::asynchronous("Reserve", "")
            .to(&[2])
            .failed(&[4], &[2, 4])
            .retry(3, 50_000_000, 2_000_000_000),
        PhaseInfo::asynchronous("Confirm", "")
            .to(&[3, 2, 1])
            .edges(&["", "ask again", "expired"])
            .failed(&[4], &[3, 2, 1, 4])
            .cancelled()
            .on(&["Confirmed"])
            .timed(Deadline::new().within_nanos(30_000_000_000)),
        PhaseInfo::end("Paid", ""),
        PhaseInfo::blocking("Refund", "Gives the money back.").to(&[5]),
        PhaseInfo::end("Refused", "").failure(),
    ],
);

/// Two layers around an operation.
pub(crate) static LAYERED: Graph = Graph::new(
    "Standard",
    "Guarded<Traced<Read>>",
    "",
    &[
        PhaseInfo::synchronous("Authorise", "").to(&[1, 7]).start(),
        PhaseInfo::asynchronous("Serve.Begin", "").to(&[2]),
        PhaseInfo::asynchronous("Serve.Trace.Open", "").to(&[3, 5]),
        PhaseInfo::blocking("Serve.Trace.Read", "")
            .to(&[3, 4])
            .timed(Deadline::new().within_nanos(5_000_000_000)),
        PhaseInfo::asynchronous("Serve.Trace.Close", "").to(&[5]),
        PhaseInfo::asynchronous("Serve.Finish", "").to(&[6]),
        PhaseInfo::asynchronous("Reply", "")
            .to(&[8])
            .failed(&[7], &[8, 7]),
        PhaseInfo::end("Denied", "").failure(),
        PhaseInfo::end("Replied", ""),
    ],
);

/// The smallest machine.
pub(crate) static SMALL: Graph = Graph::new(
    "Step",
    "Job",
    "",
    &[
        PhaseInfo::asynchronous("Work", "").to(&[1]).start(),
        PhaseInfo::end("Done", ""),
    ],
);

/// No phases.
pub(crate) static EMPTY: Graph = Graph::new("Empty", "Empty", "", &[]);
