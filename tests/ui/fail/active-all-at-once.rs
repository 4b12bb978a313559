//! All mistakes in requests, in one compile. The compiler does not report the uses of the proxy again.
use fom_patterns::prelude::*;
use std::borrow::Cow;

struct Shop {
    stock: u64,
    names: Vec<String>,
}

#[active]
impl Shop {
    pub fn close(self) -> u64 {
        self.stock
    }
    pub fn boxed(self: Box<Self>) {}
    pub fn rename(&mut self, name: &str) {
        self.names.push(name.to_owned());
    }
    pub fn add(&mut self, names: &[String], more: Option<Cow<'_, str>>) {
        self.names.extend(names.iter().cloned().chain(more.map(Cow::into_owned)));
    }
    pub fn each(&self, tell: impl Fn(&str)) {
        self.names.iter().for_each(|name| tell(name));
    }
    pub fn first(&self) -> &String {
        &self.names[0]
    }
    pub fn all(&self) -> impl Iterator<Item = u64> + use<> {
        0..self.stock
    }
    pub const fn stock(&self) -> u64 {
        self.stock
    }
    /// # Safety
    ///
    /// None.
    pub unsafe fn raw(&self) {}
    pub extern "C" fn foreign(&self) {}
    pub fn borrowed<'a>(&'a self, with: u64) -> u64 {
        self.stock + with
    }
    #[when(self.stock > 0)]
    #[when(self.stock < 9)]
    pub fn twice(&mut self) {}
    #[when()]
    pub fn nothing(&mut self) {}
    #[when(self.stock >)]
    pub fn half(&mut self) {}
    #[active(priority = "hihg")]
    pub fn soon(&mut self) {}
    #[active(urgent)]
    pub fn now(&mut self) {}
    #[active]
    pub fn bare(&mut self) {}
    #[when(self.stock > 0)]
    fn private(&self) {}
    #[active(priority = "low")]
    pub fn new() -> Self {
        Shop { stock: 0, names: Vec::new() }
    }
    pub fn fine(&mut self, more: u64) -> u64 {
        self.private();
        self.stock += more;
        self.stock
    }
}

fn main() -> Result<(), BoxError> {
    let runtime = Runtime::new()?;
    let shop: ShopProxy = Shop::new().activate(&runtime)?;
    shop.rename("corner").wait()?;
    let more = shop.fine(1).wait()? + shop.stock().wait()?;
    assert_eq!(more, 2);
    Ok(())
}
