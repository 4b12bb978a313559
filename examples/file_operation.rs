//! A storage server's file operations: create, write and read an object. A layer, written once, has the common phases:
//! authenticate, lock the object, authorise, reply, account. Each operation has only its own phase, which blocks in a
//! thread that the locality can spare. A failure anywhere gets an answer like any other end.
//!
//! This is the example of Motr's fom, which copies its generic phases into the table of each operation. See the book's
//! chapter "If you come from ..".
//!
//! `cargo run --example file_operation`

use std::{fs, io, path::PathBuf};

use fom_patterns::{
    lock::{LockGuard, LongLocks},
    prelude::*,
};
use fom_runtime::machine::Layered;

/// What the layer asks of every operation on an object.
trait FileOperation: Operation<Event = fom_runtime::machine::NoEvent, Error = io::Error> {
    fn object(&self) -> u64;
    /// Returns whether the operation changes the object.
    fn writes(&self) -> bool {
        true
    }
    /// Returns the client's answer, when the operation has ended.
    fn answer(&self) -> String;
}

/// A request of a client, with its lock.
struct Request<R> {
    client: &'static str,
    operation: R,
    lock: Option<LockGuard>,
}

/// The phases of every request.
#[fom(operation(Request<R>), around(R), transient)]
enum Serving<R: FileOperation> {
    #[phase(start, sync, to(Lock, Reply))]
    Authenticate,
    /// Takes all that the request needs before any change.
    #[phase(to(Authorise), within = "5s", failed(Reply))]
    Lock,
    #[phase(sync, to(Execute, Reply))]
    Authorise,
    /// The operation's own phases.
    #[phase(inner(operation), to(Reply), failed(Reply))]
    Execute { phase: R::Phase },
    #[phase(sync, to(Account))]
    Reply { done: bool, text: String },
    #[phase(sync, to(Served))]
    Account { done: bool },
    #[phase(end)]
    Served,
}

impl<R: FileOperation> ServingTransitions<R> for Request<R> {
    fn authenticate(&mut self, _: &mut Cx<'_>) -> Result<ServingAfterAuthenticate, BoxError> {
        Ok(match self.client {
            "nobody" => ServingAfterAuthenticate::Reply {
                done: false,
                text: "who are you?".to_owned(),
            },
            _ => ServingAfterAuthenticate::Lock,
        })
    }

    async fn lock(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let lock = cx.resource::<LongLocks>().of(self.operation.object());
        // Readers together, writers alone, in order of arrival; no thread waits.
        self.lock = Some(if self.operation.writes() {
            lock.write(cx).await?
        } else {
            lock.read(cx).await?
        });
        Ok(())
    }

    async fn lock_failed(
        &mut self,
        _: &mut Cx<'_>,
        cause: Cause<BoxError>,
    ) -> Result<ServingAfterLockFailed, BoxError> {
        let text = cause.to_string();
        Ok(ServingAfterLockFailed::Reply { done: false, text })
    }

    fn authorise(&mut self, _: &mut Cx<'_>) -> Result<ServingAfterAuthorise, BoxError> {
        let may = self.client == "root" || !self.operation.writes();
        Ok(if may {
            ServingAfterAuthorise::Execute
        } else {
            let text = "you may only read".to_owned();
            ServingAfterAuthorise::Reply { done: false, text }
        })
    }

    async fn execute(
        &mut self,
        _: &mut Cx<'_>,
        _: &mut R::Phase,
    ) -> Result<ServingAfterExecute, BoxError> {
        let text = self.operation.answer();
        Ok(ServingAfterExecute::Reply { done: true, text })
    }

    async fn execute_failed(
        &mut self,
        _: &mut Cx<'_>,
        _: &mut R::Phase,
        cause: Cause<Layered<BoxError, io::Error>>,
    ) -> Result<ServingAfterExecuteFailed, BoxError> {
        let text = cause.to_string();
        Ok(ServingAfterExecuteFailed::Reply { done: false, text })
    }

    fn reply(
        &mut self,
        cx: &mut Cx<'_>,
        ServingInReply { done, text }: ServingInReply<'_>,
    ) -> Result<ServingAfterReply, BoxError> {
        self.lock = None;
        println!("{} {}: {text}", cx.id(), self.client);
        Ok(ServingAfterReply::Account { done: *done })
    }

    fn account(&mut self, cx: &mut Cx<'_>, done: &mut bool) -> Result<(), BoxError> {
        // The data are the locality's own: no lock.
        cx.local(|served: &mut Vec<bool>| served.push(*done));
        Ok(())
    }
}

/// The directory of the objects.
struct Store(PathBuf);

impl Store {
    fn path(&self, object: u64) -> PathBuf {
        self.0.join(object.to_string())
    }
}

struct Create {
    object: u64,
}

#[fom(operation(Create), error(io::Error), transient)]
enum Creating {
    #[phase(start, blocking, to(Created))]
    Make,
    #[phase(end)]
    Created,
}

impl CreatingTransitions for Create {
    fn make(&mut self, cx: &mut BlockingCx<'_>) -> io::Result<()> {
        let path = cx.resource::<Store>().path(self.object);
        fs::File::create_new(path).map(drop)
    }
}

impl FileOperation for Create {
    fn object(&self) -> u64 {
        self.object
    }
    fn answer(&self) -> String {
        "created".to_owned()
    }
}

struct Write {
    object: u64,
    bytes: &'static [u8],
}

#[fom(operation(Write), error(io::Error), transient)]
enum Writing {
    #[phase(start, blocking, to(Written))]
    Store,
    #[phase(end)]
    Written,
}

impl WritingTransitions for Write {
    fn store(&mut self, cx: &mut BlockingCx<'_>) -> io::Result<()> {
        let path = cx.resource::<Store>().path(self.object);
        let mut file = fs::OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(path)?;
        io::Write::write_all(&mut file, self.bytes)
    }
}

impl FileOperation for Write {
    fn object(&self) -> u64 {
        self.object
    }
    fn answer(&self) -> String {
        format!("{} bytes written", self.bytes.len())
    }
}

struct Read {
    object: u64,
    text: String,
}

#[fom(operation(Read), error(io::Error), transient)]
enum Reading {
    #[phase(start, blocking, to(Found))]
    Fetch,
    #[phase(end)]
    Found,
}

impl ReadingTransitions for Read {
    fn fetch(&mut self, cx: &mut BlockingCx<'_>) -> io::Result<()> {
        let path = cx.resource::<Store>().path(self.object);
        self.text = fs::read_to_string(path)?;
        Ok(())
    }
}

impl FileOperation for Read {
    fn object(&self) -> u64 {
        self.object
    }
    fn writes(&self) -> bool {
        false
    }
    fn answer(&self) -> String {
        self.text.clone()
    }
}

/// Serves one request. In Motr's words: the object's id finds the home locality of its foms.
async fn serve<R: FileOperation + Sync>(
    runtime: &Runtime,
    client: &'static str,
    operation: R,
) -> Result<(), BoxError> {
    let home = Placement::Key(operation.object());
    let request = Request {
        client,
        operation,
        lock: None,
    };
    runtime.submit(request).place(home).await?;
    Ok(())
}

fn read(object: u64) -> Read {
    let text = String::new();
    Read { object, text }
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), BoxError> {
    run().await
}

/// The tests also run this in a simulation.
pub(crate) async fn run() -> Result<(), BoxError> {
    let directory = std::env::temp_dir().join(format!("fom-file-operation-{}", std::process::id()));
    fs::create_dir(&directory)?;
    let runtime = Runtime::builder()
        .resource(Store(directory.clone()))
        .resource(LongLocks::new("object"))
        .locality_data(|_| Ok::<_, BoxError>(Vec::<bool>::new()))
        .build()?;
    let bytes = b"a page of it";
    serve(&runtime, "root", Create { object: 7 }).await?;
    serve(&runtime, "root", Create { object: 7 }).await?;
    serve(&runtime, "root", Write { object: 7, bytes }).await?;
    serve(&runtime, "ada", Write { object: 7, bytes }).await?;
    serve(&runtime, "ada", read(7)).await?;
    serve(&runtime, "ada", read(8)).await?;
    serve(&runtime, "nobody", read(7)).await?;
    println!("{}", Request::<Write>::GRAPH.drawing());
    println!("{}", runtime.operations());
    let served = runtime.reduce(
        |local| local.data::<Vec<bool>>().clone(),
        |a, b| [a, b].concat(),
    );
    let served = served.await?;
    assert_eq!(
        (served.len(), served.iter().filter(|done| **done).count()),
        (7, 3)
    );
    fs::remove_dir_all(directory)?;
    Ok(())
}
