//! The people of an account on several gateways of one database.

use proto::v1::{self, PersonRole};
use tests::{GatewayFleet, Session, password_of, with_timeout};
use tonic::{Code, Status};

async fn add(by: &Session, name: &str) -> Result<(), Status> {
    let (account, name) = (String::new(), name.to_owned());
    let request = v1::AddPersonRequest { account, name, role: PersonRole::Member.into() };
    by.people().add_person(request).await.map(drop)
}

#[tokio::test]
async fn a_person_is_known_and_removed_on_all_gateways() {
    let Some(fleet) = GatewayFleet::create("fleet_people", 60).await else { return };
    let (one, two) = (fleet.start("one").await, fleet.start("two").await);
    let acme = Session::register(&one.admin, "acme", &password_of("acme")).await;
    let dora = acme.person(&one.admin, "dora", PersonRole::Admin).await;
    let acme_at_two = Session::with_token(&two.admin, "acme", &acme.token).await;
    let dora_at_two = Session::with_token(&two.admin, "dora", &dora.token).await;
    // Sessions and roles are read from the database, names when the other gateway has been notified.
    add(&dora_at_two, "frank").await.unwrap();
    let demoted = async {
        loop {
            let (person, role) = ("dora".to_owned(), PersonRole::Member.into());
            let request = v1::SetPersonRoleRequest { person, role };
            match acme_at_two.people().set_person_role(request).await {
                Ok(_) => return,
                Err(status) => assert_eq!(status.code(), Code::NotFound, "{status}"),
            }
        }
    };
    with_timeout("the name on the other gateway", demoted).await;
    assert_eq!(add(&dora, "gina").await.unwrap_err().code(), Code::PermissionDenied);
    let again = Session::sign_in(&two.admin, "dora").await;

    // A name is given once, by whichever gateway.
    let (first, second) = tokio::join!(add(&acme, "eric"), add(&acme_at_two, "Eric"));
    let refused = first.and(second).unwrap_err();
    assert_eq!(refused.code(), Code::AlreadyExists, "{refused}");
    let request = v1::ListPeopleRequest::default();
    let people = acme_at_two.people().list_people(request).await.unwrap().into_inner().people;
    assert_eq!(people.len(), 3, "{people:?}");

    let request = v1::RemovePersonRequest { person: "dora".to_owned() };
    acme.people().remove_person(request).await.unwrap();
    for session in [&dora, &dora_at_two, &again] {
        let refused = session.accounts().who_am_i(v1::WhoAmIRequest {}).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
    }
    for gateway in [one, two] {
        gateway.stop().await;
    }
    fleet.remove().await;
}
