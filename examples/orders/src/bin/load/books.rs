//! The books of the customers, of the provider and of the shop, compared with each other.

use std::collections::HashMap;

use fom_runtime::prelude::BoxError;
use orders::shop::Shop;
use reqwest::StatusCode;
use serde_json::Value;

use crate::{CUSTOMERS, STOCK, customer::Seen};

/// Returns whether an order ended as the answer to its cancel has said.
fn is_as_told(seen: &Seen) -> bool {
    match seen.cancel {
        None => true,
        Some(StatusCode::ACCEPTED) => seen.end == "Cancelled",
        Some(StatusCode::CONFLICT) => seen.end == "Shipped",
        Some(_) => false,
    }
}

/// Compares what the customers saw with the books of the provider and of the shop.
pub(crate) fn check(all: &[Seen], books: &Value, shop: &Shop) -> Result<(), BoxError> {
    let mut charges: HashMap<&str, Vec<bool>> = HashMap::new();
    for charge in books["charges"].as_array().ok_or("no charges")? {
        let reference = charge["reference"].as_str().unwrap_or_default();
        charges
            .entry(reference)
            .or_default()
            .push(charge["paid"] == true);
    }
    let parcels = shop.parcels()?;
    let mut sent = 0;
    for seen in all {
        let Seen { order, cancel, end } = seen;
        let reference = &*order.reference;
        let charged = charges.get(reference).map_or(&[][..], |charged| charged);
        let refunds = books["refunds"][reference].as_u64().unwrap_or(0);
        let parcels = parcels.iter().filter(|parcel| *parcel == reference).count();
        let is_right = match end.as_str() {
            "Shipped" => charged == [true] && refunds == 0 && parcels == 1,
            // A customer that has paid has the money back.
            "Cancelled" => {
                charged.len() <= 1 && parcels == 0 && (charged != [true] || refunds == 1)
            }
            _ => false,
        };
        if !is_right || !is_as_told(seen) {
            return Err(format!(
                "order {reference} is {end}, cancel {cancel:?}: charges {charged:?}, {refunds} refunds, {parcels} parcels"
            )
            .into());
        }
        if end == "Shipped" {
            sent += order.pieces;
        }
    }
    let (stock, reserved) = shop.count("tea")?;
    if (stock + sent, reserved) != (STOCK, sent) {
        return Err(format!("{stock} in stock, {reserved} reserved, {sent} sent").into());
    }
    // The parcels of one customer are in the order of the orders.
    for customer in 0..CUSTOMERS {
        let of = parcels
            .iter()
            .filter_map(|parcel| parcel.strip_prefix(&format!("{customer}-")));
        let numbers: Vec<usize> = of.map(str::parse).collect::<Result<_, _>>()?;
        if !numbers.is_sorted() {
            return Err(format!(
                "the parcels of customer {customer} are out of order: {numbers:?}"
            )
            .into());
        }
    }
    Ok(())
}
